#!/usr/bin/env python3
"""Approximate search through SQL on the CPU, with Faiss's indexes on the same rows in the same run.

    bench/ivf.py --build build/release --work /tmp/ivf [--base FILE.bvecs] [--rows 200000]
                 [--lists 1024] [--threads 2]

Rows are made as bench/gpu.py makes them. For each index: training with coding, µs a query alone and
in batches of 1,000 at several nprobe, and recall@10 against the exact search. Needs NumPy; Faiss is
optional. Pin the process to as many cores as threads for figures that can be compared.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path

import numpy as np
from gpu import DIM, descriptors, patterns, write_fvecs

K = 10
BATCH = 1000
PROBES = (16, 64)
ROUNDS = 5
# Name, parameters, whether candidates are compared by their vectors, Faiss's index.
KINDS = (
    ("ivfpq", "m=32", 0, lambda f, q, n: f.IndexIVFPQ(q, DIM, n, 32, 8)),
    ("ivfpq", "m=32, bits=4", 0, lambda f, q, n: f.IndexIVFPQFastScan(q, DIM, n, 32, 4)),
    ("ivfpq", "m=32", 8, None),
    ("ivfpq", "m=32, bits=4", 8, None),
    ("ivfflat", "", 0, lambda f, q, n: f.IndexIVFFlat(q, DIM, n)),
)


def report(case, **values):
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
    print(json.dumps({"case": case, **rounded}), flush=True)


def recall(found, truth):
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth)]))


class Warplite:
    def __init__(self, options, rows, questions):
        self.options = options
        self.work = Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.extension = str(Path(options.build) / "warplite")
        self.database = self.work / "ivf.db"
        self.base, self.queries = self.work / "base.fvecs", self.work / "queries.fvecs"
        write_fvecs(self.base, rows)
        write_fvecs(self.queries, questions)
        self.database.unlink(missing_ok=True)
        self.settings = [
            "SELECT warp_config('device', 'cpu')",
            f"SELECT warp_config('threads', {options.threads})",
        ]
        self.db = sqlite3.connect(self.database, isolation_level=None)
        self.db.enable_load_extension(True)
        self.db.load_extension(self.extension)
        for sql in self.settings:
            self.db.execute(sql)
        self.db.execute(
            f"CREATE TABLE q AS SELECT rowid AS id, vector FROM warp_vectors_file('{self.queries}')"
        )

    def build(self, table, index):
        self.db.execute(f"CREATE VIRTUAL TABLE {table} USING warp(e FLOAT[{DIM}] index={index})")
        self.db.execute(
            f"INSERT INTO {table}(rowid, e) SELECT rowid, vector "
            f"FROM warp_vectors_file('{self.base}')"
        )
        begin = time.time()
        self.db.execute(f"INSERT INTO {table}({table}) VALUES ('train')")
        return time.time() - begin

    def join(self, table, **choices):
        return (
            f"SELECT query_id, rowid, distance FROM warp_knn_join('{table}', 'e', "
            f"'SELECT id, vector FROM q', {K}, '{json.dumps(choices)}')"
        )

    def neighbors(self, table, **choices):
        found = [[] for _ in range(BATCH)]
        for query, row, _ in self.db.execute(self.join(table, **choices)):
            found[query].append(row)
        return found

    def milliseconds(self, sql, queries):
        command = [str(Path(self.options.build) / "bench" / "bench_query"), str(self.database)]
        command += ["--load", self.extension, "--warm", "2", "--runs", "200" if queries else "5"]
        command += ["--queries", str(self.queries)] if queries else []
        for setting in self.settings:
            command += ["--setup", setting]
        outcome = subprocess.run([*command, sql], capture_output=True, text=True)
        if outcome.returncode != 0:
            raise SystemExit(outcome.stderr)
        return json.loads(outcome.stdout)["statements"][0]["min_ms" if not queries else "median_ms"]


def measure_ours(ours, table, name, refine, truth):
    for nprobe in PROBES:
        choices = json.dumps({"refine": refine})
        alone = f"SELECT rowid, distance FROM warp_ivfpq_search('{table}', 'e', ?1, {K}, {nprobe}, '{choices}')"
        batch = ours.join(table, nprobe=nprobe, refine=refine)
        report(
            f"{name}, refine {refine}, nprobe {nprobe}",
            alone_us=ours.milliseconds(alone, True) * 1e3,
            batch_us=ours.milliseconds(batch, False) * 1e3 / BATCH,
            recall=recall(ours.neighbors(table, nprobe=nprobe, refine=refine), truth),
        )


def measure_faiss(faiss, index, name, rows, questions, truth):
    begin = time.time()
    index.train(rows)
    index.add(rows)
    report(f"Faiss {name}: train and add", s=time.time() - begin)
    for nprobe in PROBES:
        index.nprobe = nprobe
        alone, batch = [], []
        for q in questions[:200]:
            begin = time.time()
            index.search(q[None], K)
            alone.append(time.time() - begin)
        for _ in range(ROUNDS):
            begin = time.time()
            _, found = index.search(questions, K)
            batch.append(time.time() - begin)
        report(
            f"Faiss {name}, nprobe {nprobe}",
            alone_us=float(np.median(alone)) * 1e6,
            batch_us=min(batch) * 1e6 / BATCH,
            recall=recall(found.tolist(), truth),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--base")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--lists", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    try:
        import faiss

        faiss.omp_set_num_threads(options.threads)
    except ImportError:
        faiss = None
    source = patterns(options.base)
    rows = descriptors(source, options.rows, 1)
    questions = descriptors(source, BATCH, 2)
    ours = Warplite(options, rows, questions)
    truth = None
    for number, (kind, parameters, refine, make) in enumerate(KINDS):
        name = f"{kind}({parameters})"
        table = kind + parameters.replace(", bits=", "_").replace("m=", "_")
        if not ours.db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
            both = ", ".join(filter(None, [f"lists={options.lists}", parameters]))
            report(f"{name}: train and code", s=ours.build(table, f"{kind}({both})"))
        if truth is None:
            truth = ours.neighbors(table, exact=1)
        measure_ours(ours, table, name, refine, truth)
        if faiss is not None and make is not None:
            index = make(faiss, faiss.IndexFlatL2(DIM), options.lists)
            measure_faiss(faiss, index, name, rows, questions, truth)


if __name__ == "__main__":
    main()
