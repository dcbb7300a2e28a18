#!/usr/bin/env python3
"""Exact search selected by threshold beside the default selection (th-heap 2015, Fig. 5 to 8), by SQL.

    bench/threshold.py --build build/release [--scale 0.1] [--queries 512] [--devices cpu,gpu] [--k 32,512,4096]

Two tables of made vectors in [0, 1], of the paper's shapes: 269,648 x 500 (NUS-WIDE) and 2,213,937 x 150
(ImageNet); --scale makes them smaller. Rows lie around 1,000 centres, queries are uniform, as the paper's are.
Prints one JSON line for each device and k: seconds of the same warp_knn_join with {"select":"default"},
{"select":"threshold"} and without either, and the ratio of the first two; and one for each n_S/k: the compression
ratio, rows over rows within the threshold of a random sample, for single queries and for the worst of every four
(the paper's Equation 4), which should be near n_S/k. Answers of both selections are compared.
"""

import argparse
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from record import report

SHAPES = {"nus-wide": (269_648, 500), "imagenet": (2_213_937, 150)}
CENTRES = 1000
FACTORS = (1, 2, 4, 8, 16, 32, 64)
COUNTED_QUERIES = 16


def make_rows(rows, dim, rng):
    centres = rng.random((CENTRES, dim), dtype=np.float32)
    out = np.empty((rows, dim), dtype=np.float32)
    for begin in range(0, rows, 50_000):
        part = out[begin : begin + 50_000]
        part[:] = 0.6 * centres[rng.integers(CENTRES, size=len(part))]
        part += 0.4 * rng.random(part.shape, dtype=np.float32)
    return out


def open_table(build, vectors):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(build) / "warplite"))
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(v FLOAT[{vectors.shape[1]}])")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.npy")
        np.save(path, vectors)
        db.execute("INSERT INTO t(rowid, v) SELECT rowid, vector FROM warp_vectors_file(?)", (path,))
    return db


def add_queries(db, queries):
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, v BLOB)")
    db.executemany("INSERT INTO q(v) VALUES (?)", ((query.tobytes(),) for query in queries))


def answer(db, k, select, digest=False):
    """The time of the search, which comes with the first row, and a digest of the answer."""
    sql = "SELECT query_id, rowid FROM warp_knn_join('t', 'v', 'SELECT id, v FROM q', ?, ?)"
    begin = time.perf_counter()
    cursor = db.execute(sql, (k, json.dumps({"select": select})))
    first = cursor.fetchone()
    seconds = time.perf_counter() - begin
    return seconds, hash((first, *cursor)) if digest else None


def time_selections(db, name, shape, options, ks):
    for device in options.devices.split(","):
        db.execute("SELECT warp_config('device', ?)", (device,))
        answer(db, 1, "auto")  # loads the rows
        for k in ks:
            times, answers = {}, set()
            for turn in range(options.rounds):
                for select in ("default", "threshold", "auto"):
                    seconds, digest = answer(db, k, select, digest=turn == 0)
                    times[select] = min(seconds, times.get(select, seconds))
                    answers.add(digest)
            report(f"{name} {device} k={k}", rows=shape[0], dim=shape[1], queries=options.queries, k=k,
                   **times, ratio=times["default"] / times["threshold"],
                   same_answers=len(answers - {None}) == 1)


def count_survivors(vectors, queries, ks, rng):
    """For each (k, factor) the rows within the threshold of each query."""
    order = rng.permutation(len(vectors))
    squares = np.einsum("ij,ij->i", vectors, vectors)
    counts = {}
    for query in queries[:COUNTED_QUERIES]:
        distances = squares - 2 * (vectors @ query)
        drawn, ranked = distances[order], np.sort(distances)
        for k in ks:
            for factor in FACTORS:
                if factor * k > len(vectors) / 2:
                    break
                threshold = np.partition(drawn[: factor * k], k - 1)[k - 1]
                within = int(np.searchsorted(ranked, threshold, side="right"))
                counts.setdefault((k, factor), []).append(within)
    return counts


def report_compression(name, vectors, queries, ks, rng):
    for (k, factor), counts in count_survivors(vectors, queries, ks, rng).items():
        rows, within = len(vectors), np.array(counts, dtype=float)
        fours = within[: len(within) // 4 * 4].reshape(-1, 4).max(axis=1)
        report(f"{name} compression k={k} n_S={factor * k}", k=k, n_S=factor * k, n_S_over_k=factor,
               compression=float(np.mean(rows / within)), in_fours=float(np.mean(rows / fours)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--k", default="32,64,128,256,512,1000,4096")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ks = [int(k) for k in options.k.split(",")]
    for name in options.shapes.split(","):
        rng = np.random.default_rng(1)
        rows, dim = int(SHAPES[name][0] * options.scale), SHAPES[name][1]
        vectors = make_rows(rows, dim, rng)
        queries = rng.random((options.queries, dim), dtype=np.float32)
        begin = time.perf_counter()
        db = open_table(options.build, vectors)
        add_queries(db, queries)
        report(f"{name} loaded", rows=rows, dim=dim, seconds=time.perf_counter() - begin)
        time_selections(db, name, (rows, dim), options, ks)
        report_compression(name, vectors, queries, ks, rng)
        db.close()


if __name__ == "__main__":
    main()
