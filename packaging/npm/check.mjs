// Searches by the installed package `warplite`: node packaging/npm/check.mjs, where it can be resolved.
import assert from "node:assert";
import { DatabaseSync } from "node:sqlite";
import * as warplite from "warplite";

const db = new DatabaseSync(":memory:", { allowExtension: true });
warplite.load(db);
db.exec("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])");
const insert = db.prepare("INSERT INTO t(e) VALUES (?)");
const vector = (...values) => new Uint8Array(new Float32Array(values).buffer);
for (let i = 0; i < 100; ++i) insert.run(vector(i, 0));
const rows = db.prepare("SELECT rowid, distance FROM t WHERE e MATCH ? AND k = 2").all(vector(7.25, 0));
assert.deepEqual(rows.map((row) => [row.rowid, row.distance]), [[8, 0.25], [9, 0.75]]);
console.log(`${warplite.loadablePath()} searches`);
