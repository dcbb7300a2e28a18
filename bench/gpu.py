#!/usr/bin/env python3
"""Times searches through SQL on a GPU, beside PyTorch's matrix product and top-k on the same data.

    bench/gpu.py --build build/release --work /tmp/gpu [--base FILE.bvecs] [--rows 1000000]

Rows are 8-bit image descriptors in 128 dimensions: those of FILE again and again, each time with
other noise, or, without one, drawn around random patterns. Needs NumPy; PyTorch is optional.
bench/kernels/gpu_lab times the same inside the engine, and larger tables.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import numpy as np

DIM = 128


def patterns(path):
    if path is None:
        return np.random.default_rng(7).exponential(30, (20000, DIM)).clip(0, 255)
    raw = np.fromfile(path, dtype=np.uint8).reshape(-1, DIM + 4)
    return raw[:, 4:].astype(np.float32)


def descriptors(base, rows, seed):
    random = np.random.default_rng(seed)
    out = np.empty((rows, DIM), np.float32)
    for at in range(0, rows, 100000):
        n = min(100000, rows - at)
        noise = random.standard_normal((n, DIM), np.float32) * 8
        out[at : at + n] = (base[random.integers(0, len(base), n)] + noise).clip(0, 255).round()
    return out


def write_fvecs(path, vectors):
    with open(path, "wb") as file:
        for at in range(0, len(vectors), 100000):
            part = vectors[at : at + 100000]
            head = np.full((len(part), 1), DIM, np.int32).view(np.float32)
            np.hstack([head, part]).tofile(file)


class Bench:
    def __init__(self, options):
        self.options = options
        self.extension = str(Path(options.build) / "warplite")
        self.work = Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.base = self.work / "base.fvecs"
        self.queries = self.work / "queries.fvecs"
        self.database = self.work / "gpu.db"

    def query(self, *statements, setup=(), warm=3, runs=15, queries=True):
        command = [str(Path(self.options.build) / "bench" / "bench_query"), str(self.database)]
        command += ["--load", self.extension, "--warm", str(warm), "--runs", str(runs)]
        if queries:
            command += ["--queries", str(self.queries)]
        for sql in setup:
            command += ["--setup", sql]
        outcome = subprocess.run(command + list(statements), capture_output=True, text=True)
        if outcome.returncode != 0:
            raise SystemExit(outcome.stderr)
        return [s["median_ms"] for s in json.loads(outcome.stdout)["statements"]]

    def prepare(self):
        source = patterns(self.options.base)
        rows = descriptors(source, self.options.rows, 1)
        questions = descriptors(source, 10000, 2)
        write_fvecs(self.base, rows)
        write_fvecs(self.queries, questions)
        self.database.unlink(missing_ok=True)
        begin = time.time()
        self.query(
            "SELECT 1",
            setup=[
                f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{DIM}], part INTEGER)",
                "INSERT INTO t(rowid, e, part) SELECT rowid, vector, rowid % 10 "
                f"FROM warp_vectors_file('{self.base}')",
                f"CREATE TABLE q AS SELECT rowid AS id, vector FROM warp_vectors_file('{self.queries}')",
            ],
            warm=0,
            runs=1,
            queries=False,
        )
        print(json.dumps({"case": "fill", "s": round(time.time() - begin, 2)}), flush=True)
        return rows, questions


SEARCH = "SELECT rowid, distance FROM t WHERE e MATCH ?1 AND k = 10"
JOIN = (
    "SELECT query_id, rowid, distance, rank FROM "
    "warp_knn_join('t', 'e', 'SELECT id, vector FROM q{limit}', {k})"
)


def through_sql(bench):
    gpu = ["SELECT warp_config('device', 'gpu')"]

    def report(case, ms, **more):
        print(json.dumps({"case": case, "ms": round(ms, 4), **more}), flush=True)

    report("1 query", bench.query(SEARCH, setup=gpu, warm=5, runs=50)[0])
    report("1 query, 1 in 10 lives", bench.query(SEARCH + " AND part = 3", setup=gpu)[0])
    report("1 query, range", bench.query("SELECT count(*) FROM warp_range_search('t', 'e', ?1, 250)", setup=gpu)[0])
    joins = [(256, 10), (10000, 10), (10000, 100)]
    for count, k in joins:
        limit = f" LIMIT {count}" if count < 10000 else ""
        ms = bench.query(JOIN.format(limit=limit, k=k), setup=gpu, warm=2, runs=5, queries=False)
        report(f"join of {count}, k={k}, to the last row", ms[0])
    change = "UPDATE t SET e = ?1 WHERE rowid = 77777"
    both = bench.query(change, SEARCH, setup=gpu, runs=20)
    report("a row changed, then 1 query", both[1], change_ms=round(both[0], 4))
    limit = bench.options.rows * DIM * 4 // 4
    small = gpu + [f"SELECT warp_config('gpu_memory_limit', {limit})"]
    ms = bench.query(SEARCH, setup=small)[0]
    report("1 query, table 4 x gpu_memory_limit", ms, gb_per_s=round(limit * 3 / ms / 1e6, 1))
    print(json.dumps({"devices": bench_devices(bench)}))


def inverted_files(bench):
    """Training, coding and searches through index=ivfpq; the table is a second one of the file."""
    gpu = ["SELECT warp_config('device', 'gpu')"]
    once = dict(warm=0, runs=1, queries=False)

    def report(case, ms, **more):
        print(json.dumps({"case": "ivfpq, " + case, "ms": round(ms, 4), **more}), flush=True)

    lists = max(64, bench.options.rows // 244)
    fill = bench.query(
        f"CREATE VIRTUAL TABLE v USING warp(e FLOAT[{DIM}] index=ivfpq(lists={lists}, m=32))",
        f"INSERT INTO v(rowid, e) SELECT rowid, vector FROM warp_vectors_file('{bench.base}')",
        "INSERT INTO v(v) VALUES ('train')",
        setup=gpu,
        **once,
    )
    report("fill, trained and coded on the way", fill[1])
    report("train and code again, committed", fill[2])
    search = "SELECT rowid, distance FROM v WHERE e MATCH ?1 AND k = 10 AND nprobe = 64"
    report("1 query", bench.query(search, setup=gpu, warm=5, runs=50)[0])
    plain = "SELECT rowid, distance FROM warp_ivfpq_search('v', 'e', ?1, 10, 64, '{\"refine\":0}')"
    report("1 query, refine 0", bench.query(plain, setup=gpu, warm=5, runs=50)[0])
    for refine in (0, 8):
        join = (
            "SELECT query_id, rowid, distance, rank FROM warp_knn_join('v', 'e', "
            f"'SELECT id, vector FROM q', 10, '{{\"nprobe\":64,\"refine\":{refine}}}')"
        )
        ms = bench.query(join, setup=gpu, warm=2, runs=5, queries=False)[0]
        report(f"join of 10000, refine {refine}, to the last row", ms)
    graph = "SELECT count(*), avg(distance) FROM warp_knn_graph('v', 'e', 10)"
    report("graph of all rows, k=10", bench.query(graph, setup=gpu, **once)[0])


def bench_devices(bench):
    import sqlite3

    db = sqlite3.connect(bench.database)
    db.enable_load_extension(True)
    db.load_extension(bench.extension)
    question = bench.queries.read_bytes()[4 : 4 + 4 * DIM]
    db.execute("SELECT warp_config('device', 'gpu')")
    db.execute(SEARCH, (question,)).fetchall()
    kinds = db.execute("SELECT * FROM warp_residency() LIMIT 3").fetchall()
    return [list(row) for row in db.execute("SELECT * FROM warp_devices()")] + [kinds]


def pytorch(rows, questions):
    try:
        import torch
    except ImportError:
        return
    base = torch.from_numpy(rows).cuda()
    norms = (base * base).sum(1)
    pinned = torch.from_numpy(questions).cuda()

    def search(count, k, step=1024):
        out = []
        for at in range(0, count, step):
            part = pinned[at : min(count, at + step)]
            scores = torch.addmm(norms, part, base.T, alpha=-2)
            out.append(torch.topk(scores, k, largest=False))
        return [part.indices.cpu() for part in out]

    for tf32 in (True, False):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for count, k in ((1, 10), (256, 10), (10000, 10), (10000, 100)):
            times = []
            for _ in range(4):
                torch.cuda.synchronize()
                begin = time.time()
                search(count, k)
                times.append((time.time() - begin) * 1e3)
            name = f"PyTorch {'TF32' if tf32 else 'FP32'}, {count} queries, k={k}"
            print(json.dumps({"case": name, "ms": round(min(times), 4)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--base")
    parser.add_argument("--rows", type=int, default=1000000)
    bench = Bench(parser.parse_args())
    rows, questions = bench.prepare()
    through_sql(bench)
    inverted_files(bench)
    pytorch(rows, questions)


if __name__ == "__main__":
    main()
