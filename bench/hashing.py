#!/usr/bin/env python3
"""Search through hash signatures (index=lsh) by SQL, beside the exact one.

    bench/hashing.py --build build/release --base sift50k_base.bvecs [--rows 2000000]

Rows are the vectors of the file and, beyond those, sums of two of them with weights of 0.8 and 0.2. Queries are
1,024 rows with a little noise. Prints one JSON line a case: loading with hashing, the first search, 1,024 queries
at once, one query; recall@10 against the exact search of the same table.
"""

import argparse
import json
import sqlite3
import time
from pathlib import Path

import numpy as np

from record import report, timed

QUERIES = 1024
K = 10


def read_bvecs(path):
    raw = np.fromfile(path, dtype=np.uint8)
    dim = int(raw[:4].view(np.int32)[0])
    return raw.reshape(-1, dim + 4)[:, 4:].astype(np.float32)


def rows_of(base, rows, rng):
    step = 100_000
    yield base[:rows]
    for begin in range(len(base), rows, step):
        count = min(step, rows - begin)
        a, b = (base[rng.integers(len(base), size=count)] for _ in range(2))
        yield 0.8 * a + 0.2 * b


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    base = read_bvecs(options.base)
    dim = base.shape[1]
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('device', ?)", (options.device,))
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(v FLOAT[{dim}] index=lsh(m=237, buckets=67))")
    begin = time.time()
    for part in rows_of(base, options.rows, rng):
        db.execute("BEGIN")
        db.executemany("INSERT INTO t(v) VALUES (?)", ((row.tobytes(),) for row in part))
        db.execute("COMMIT")
    report("insert", rows=options.rows, seconds=time.time() - begin)
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, v BLOB)")
    queries = base[rng.integers(len(base), size=QUERIES)]
    queries = queries + rng.normal(0, 2, queries.shape).astype(np.float32)
    db.executemany("INSERT INTO q(v) VALUES (?)", ((row.tobytes(),) for row in queries))
    join = "SELECT query_id, rowid FROM warp_knn_join('t', 'v', 'SELECT id, v FROM q', 10, ?)"
    one = "SELECT rowid FROM warp_knn_search('t', 'v', ?, 10)"
    true = set(db.execute(join, ('{"exact":1}',)))
    begin = time.time()
    found = db.execute(join, ("{}",)).fetchall()
    report("first batch", seconds=time.time() - begin)
    time.sleep(5)  # a device is filled
    numbers = iter(range(10_000))
    for refine in (8, 32):
        options_json = json.dumps({"refine": refine})
        found = db.execute(join, (options_json,)).fetchall()
        report("lsh", refine=refine, queries=QUERIES,
               batch_ms=timed(lambda: db.execute(join, (options_json,)).fetchall(), 5),
               recall=len(true.intersection(found)) / len(true))
    report("lsh", one_query_ms=timed(
        lambda: db.execute(one, (queries[next(numbers) % QUERIES].tobytes(),)).fetchall(), 50))
    report("exact", batch_ms=timed(lambda: db.execute(join, ('{"exact":1}',)).fetchall(), 5))
    report("devices", rows=[list(row) for row in db.execute("SELECT * FROM warp_devices()")])


if __name__ == "__main__":
    main()
