#!/usr/bin/env python3
"""Searches within a radius through metric indexes by SQL, beside brute force.

    bench/metric.py --build build/release --data ../shared/data [--device cpu --threads 2]

Vectors: rows drawn from patch20_base.fvecs, each coordinate with noise of 2 % of its deviation (metric-range §V draws
its images from a smaller set as well); the radii are those that hold 0.01 %, 0.1 % and 1 % of the table on average.
Words: words_es.txt, queries with up to two edits. Prints one JSON line a case: the index, the radius, rows found,
the share of pairs whose distance was evaluated, the method, and the time to the last row, best of --repeat.
"""

import argparse
import random
import sqlite3
import time
from pathlib import Path

import numpy as np

from record import report

VECTOR_INDEXES = ("flat", "list_of_clusters(size=64)", "sss(alpha=0.4)")
TEXT_INDEXES = ("", "index=list_of_clusters(size=32)", "index=sss(alpha=0.5)")


def read_fvecs(path):
    raw = np.fromfile(path, dtype=np.float32)
    dim = int(raw[:1].view(np.int32)[0])
    return raw.reshape(-1, dim + 1)[:, 1:].copy()


def drawn(base, count, rng):
    noise = rng.normal(0, 0.02, (count, base.shape[1])) * base.std(axis=0)
    return (base[rng.integers(len(base), size=count)] + noise).astype(np.float32)


def radii_of(rows, queries):
    some = queries[:200]
    squares = ((some[:, None, :] - rows[None, ::10, :]) ** 2).sum(axis=2)
    return [float(np.sqrt(np.quantile(squares, share))) for share in (1e-4, 1e-3, 1e-2)]


def edited(word, alphabet, rng):
    letters = list(word)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(letters) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            letters.insert(at, rng.choice(alphabet))
        elif at < len(letters):
            letters[at:at + 1] = [] if kind == 1 else [rng.choice(alphabet)]
    return "".join(letters)


def connect(options):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('device', ?)", (options.device,)).fetchall()
    if options.threads:
        db.execute("SELECT warp_config('threads', ?)", (options.threads,)).fetchall()
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, v)")
    return db


def fill(db, table, values):
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO {table}(v) VALUES (?)", ((value,) for value in values))
    db.execute("COMMIT")


def joins(db, case, index, radii, options):
    """Every radius as a join; the first search makes the index, and is timed apart."""
    sql = "SELECT count(*) FROM warp_range_join('t', 'v', 'SELECT id, v FROM q', ?)"
    for number, radius in enumerate(radii):
        times = []
        for _ in range(options.repeat + (number == 0)):
            begin = time.perf_counter()
            found = db.execute(sql, (radius,)).fetchone()[0]
            times.append((time.perf_counter() - begin) * 1e3)
        if number == 0:
            report(case + " first search", index=index, ms=times.pop(0))
        method, pairs, distances, clusters = db.execute(
            "SELECT method, pairs, distances, clusters FROM warp_explain()").fetchone()
        report(case, index=index, radius=radius, found=found, ms=min(times), method=method,
               evaluated_percent=100 * distances / pairs, visited=clusters,
               ns_per_pair=min(times) * 1e6 / pairs)


def vectors(options):
    rng = np.random.default_rng(1)
    base = read_fvecs(Path(options.data) / "patch20_base.fvecs")
    rows, queries = drawn(base, options.rows, rng), drawn(base, options.queries, rng)
    radii = radii_of(rows, queries)
    for index in VECTOR_INDEXES:
        db = connect(options)
        db.execute(f"CREATE VIRTUAL TABLE t USING warp(v FLOAT[20] index={index})")
        fill(db, "t", (row.tobytes() for row in rows))
        fill(db, "q", (query.tobytes() for query in queries))
        joins(db, "vectors", index, radii, options)
        one = "SELECT count(*) FROM t WHERE v MATCH ? AND distance <= ?"
        for radius in radii:
            begin = time.perf_counter()
            for query in queries[:200]:
                db.execute(one, (query.tobytes(), radius)).fetchall()
            report("vectors, alone", index=index, radius=radius,
                   us=(time.perf_counter() - begin) * 1e6 / 200)
        begin = time.perf_counter()
        db.execute("SELECT count(*) FROM warp_knn_join('t','v','SELECT id, v FROM q', 10)").fetchall()
        spent = (time.perf_counter() - begin) * 1e3
        method, share = db.execute(
            "SELECT method, 100.0 * distances / pairs FROM warp_explain()").fetchone()
        report("vectors, nearest 10", index=index, ms=spent, method=method,
               evaluated_percent=share)


def words(options):
    rng = random.Random(1)
    lines = (Path(options.data) / "words_es.txt").read_text(encoding="utf-8").split("\n")[:-1]
    alphabet = sorted(set("".join(lines)))
    queries = [edited(rng.choice(lines), alphabet, rng) for _ in range(options.words)]
    for index in TEXT_INDEXES:
        db = connect(options)
        db.execute(f"CREATE VIRTUAL TABLE t USING warp(v TEXT distance=edit {index})")
        fill(db, "t", lines)
        fill(db, "q", queries)
        db.execute("INSERT INTO t(t) VALUES ('optimize')")
        joins(db, "words", index or "flat", (1, 2, 3), options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=120_000)
    parser.add_argument("--queries", type=int, default=24_000)
    parser.add_argument("--words", type=int, default=40_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", choices=("vectors", "words"))
    options = parser.parse_args()
    if options.only != "words":
        vectors(options)
    if options.only != "vectors":
        words(options)


if __name__ == "__main__":
    main()
