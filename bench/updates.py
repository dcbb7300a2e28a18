#!/usr/bin/env python3
"""Recall of approximate indexes while their rows change, and nobody trains them again.

    bench/updates.py --build build/release [--rows 100000] [--asked 0.95] [--index approximate …]

Replaced: 30 % of the rows give way to rows of another distribution; recall before, after, after 'optimize', and
of an index that is made of the same rows afresh. Streamed: as the streaming track of big-ann-benchmarks has
it, clusters are inserted, deleted and searched for in turns; recall of every step. Queries are rows of what
the table then holds, with noise; each asks for 10 rows at the recall --asked. Needs NumPy.
"""

import argparse
import json
import sqlite3
import time
from pathlib import Path

import numpy as np

DIM, K, QUERIES = 128, 10, 500
CLUSTERS = 64
REPLACED = 0.3


class World:
    """Rows around centres on a surface of few dimensions; each `kind` of them lies elsewhere."""

    def __init__(self, kind):
        random = np.random.default_rng(kind)
        self.map = random.standard_normal((16, DIM)).astype(np.float32)
        self.centres = random.standard_normal((CLUSTERS, 16)).astype(np.float32) * 2
        self.shift = random.standard_normal(DIM).astype(np.float32) * 3 * (kind != 0)
        self.random = np.random.default_rng([kind, 1])

    def rows(self, count, clusters=range(CLUSTERS)):
        of = self.random.choice(list(clusters), count)
        latent = self.centres[of] + self.random.standard_normal((count, 16), np.float32)
        return latent @ self.map + self.random.standard_normal((count, DIM), np.float32) + self.shift


class Table:
    def __init__(self, extension, index):
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.enable_load_extension(True)
        self.db.load_extension(extension)
        self.db.execute(f"CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[{DIM}] index={index})")
        self.next = 1

    def insert(self, rows):
        ids = range(self.next, self.next + len(rows))
        self.next += len(rows)
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO t VALUES (?, ?)", ((i, row.tobytes()) for i, row in zip(ids, rows)))
        self.db.execute("COMMIT")
        return ids

    def delete(self, ids):
        self.db.execute("BEGIN")
        self.db.executemany("DELETE FROM t WHERE id = ?", ((i,) for i in ids))
        self.db.execute("COMMIT")

    def command(self, name):
        self.db.execute("INSERT INTO t(t) VALUES (?)", (name,))

    def nearest(self, query, what):
        sql = f"SELECT id FROM t WHERE e MATCH ? AND k = {K} AND {what}"
        return {row[0] for row in self.db.execute(sql, (query.tobytes(),))}

    def measure(self, queries, asked):
        found, begin = [], time.perf_counter()
        for query in queries:
            found.append(self.nearest(query, f"recall = {asked}"))
        micros = (time.perf_counter() - begin) / len(queries) * 1e6
        truth = [self.nearest(query, "recall = 1") for query in queries]
        recall = np.mean([len(a & b) / K for a, b in zip(found, truth)])
        return {"recall": round(float(recall), 4), "us": round(micros)}


def noisy(rows, random):
    return rows + random.standard_normal(rows.shape, np.float32) * 0.5


def report(case, **values):
    print(json.dumps({"case": case, **values}), flush=True)


def replaced(extension, index, options):
    random = np.random.default_rng(3)
    old, new = World(0), World(1)
    first, second = old.rows(options.rows), new.rows(int(options.rows * REPLACED))
    table = Table(extension, index)
    ids = table.insert(first)
    table.command("train")
    of_old = noisy(first[random.integers(0, len(first), QUERIES)], random)
    report(f"{index}: trained", **table.measure(of_old, options.asked))
    gone = random.permutation(len(first))[: len(second)]
    table.delete([ids[i] for i in gone])
    table.insert(second)
    kept = np.delete(first, gone, 0)
    every = np.concatenate([kept, second])
    mixed = noisy(every[random.integers(0, len(every), QUERIES)], random)
    of_new = noisy(second[random.integers(0, len(second), QUERIES)], random)
    fresh = Table(extension, index)
    fresh.insert(every)
    fresh.command("train")
    for name, queries in (("of all", mixed), ("of new ones", of_new)):
        report(f"{index}: 30 % replaced, queries {name}", **table.measure(queries, options.asked))
        report(f"{index}: made afresh, queries {name}", **fresh.measure(queries, options.asked))
    table.command("optimize")
    for name, queries in (("of all", mixed), ("of new ones", of_new)):
        report(f"{index}: optimized, queries {name}", **table.measure(queries, options.asked))


def streamed(extension, index, options):
    """Each step inserts the rows of some clusters, deletes those of the oldest, and searches."""
    random = np.random.default_rng(4)
    world, each, steps = World(2), 8, CLUSTERS // 8
    count = options.rows // 4
    table, live = Table(extension, index), []
    for step in range(steps):
        rows = world.rows(count, range(step * each, (step + 1) * each))
        live.append((table.insert(rows), rows))
        if step == 1:
            table.command("train")
        if len(live) > 4:
            table.delete(live.pop(0)[0])
        if step < 2:
            continue
        every = np.concatenate([rows for _, rows in live])
        queries = noisy(every[random.integers(0, len(every), QUERIES)], random)
        report(f"{index}: step {step + 1} of {steps}", rows=len(every), **table.measure(queries, options.asked))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--asked", type=float, default=0.95)
    parser.add_argument("--index", nargs="+", default=["approximate", "ivfpq", "ivfflat"])
    options = parser.parse_args()
    extension = str(Path(options.build) / "warplite")
    for index in options.index:
        replaced(extension, index, options)
        streamed(extension, index, options)


if __name__ == "__main__":
    main()
