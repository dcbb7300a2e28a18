#!/usr/bin/env python3
"""A large table with an index of lists: built, opened, searched.

    bench/scale.py --build build/gpu --work /tmp/scale [--rows 100000000] [--index "ivfrabitq(bits=4)"]
                   [--codes] [--nprobe 32,64,128] [--refine 4]

Vectors come from a seeded generator, a million at a time, so that neither disk nor memory ever holds
all of them: 50,000 clusters of unequal weight and width around a spectrum that decays as i^-0.9, turned at
random. A million of them have a local intrinsic dimensionality of 20 to 22 and a relative contrast of 2.3,
as descriptors of real images have. Queries are further rows. The exact answer of the first 1,000 queries is
found on the way, by brute force over every piece. Needs PyTorch with a GPU for that; the table itself is
built and asked through SQL alone. --codes: the table keeps codes only.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DIM, CLUSTERS, DECAY, SPREAD = 96, 50_000, 0.9, 0.8
PIECE = 1_000_000
QUERIES, JUDGED, K = 10_000, 1000, 10


def report(case, **values):
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
    print(json.dumps({"case": case, **rounded}), flush=True)


class Generator:
    def __init__(self, torch):
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        seeded = self.seeded(0)
        steps = torch.arange(1, DIM + 1, device=self.device).float()
        self.scale = (steps**-DECAY).sqrt()
        self.centers = self.normal(CLUSTERS, DIM, seeded) * self.scale
        self.width = SPREAD * (0.5 + self.uniform(CLUSTERS, seeded)[:, None])
        self.weight = self.uniform(CLUSTERS, seeded) ** 3
        self.turn = torch.linalg.qr(self.normal(DIM, DIM, seeded))[0]

    def seeded(self, seed):
        return self.torch.Generator(device=self.device).manual_seed(seed)

    def normal(self, rows, columns, seeded):
        return self.torch.randn(rows, columns, generator=seeded, device=self.device)

    def uniform(self, rows, seeded):
        return self.torch.rand(rows, generator=seeded, device=self.device)

    def draw(self, seed, rows):
        seeded = self.seeded(1 + seed)
        which = self.torch.multinomial(self.weight, rows, replacement=True, generator=seeded)
        noise = self.normal(rows, DIM, seeded) * self.scale
        return (self.centers[which] + self.width[which] * noise) @ self.turn


class Truth:
    """The exact nearest of some queries, as pieces come."""

    def __init__(self, torch, queries):
        self.torch, self.queries = torch, queries
        self.best = torch.full((len(queries), K), float("inf"), device=queries.device)
        self.ids = torch.zeros((len(queries), K), dtype=torch.int64, device=queries.device)

    def add(self, piece, first):
        squares = (piece * piece).sum(1)
        for begin in range(0, len(self.queries), 250):
            some = slice(begin, begin + 250)
            distances = squares[None, :] - 2 * self.queries[some] @ piece.T
            best, ids = distances.topk(K, dim=1, largest=False)
            best = self.torch.cat([self.best[some], best], 1)
            ids = self.torch.cat([self.ids[some], ids + first], 1)
            self.best[some], order = best.topk(K, dim=1, largest=False)
            self.ids[some] = ids.gather(1, order)


def connect(options):
    db = sqlite3.connect(Path(options.work) / "scale.db", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('device', ?)", (options.device,))
    return db


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1048576


def build(options):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    (work / "scale.db").unlink(missing_ok=True)
    source = Generator(torch)
    queries = source.draw(-1, QUERIES)
    np.save(work / "queries.npy", queries.cpu().numpy())
    truth = Truth(torch, queries[:JUDGED])
    db = connect(options)
    db.execute(
        f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{DIM}] index={options.index}"
        + (", store=codes)" if options.codes else ")")
    )
    piece_file = work / "piece.npy"
    spent = {"generate": 0.0, "insert": 0.0, "slowest_insert": 0.0}
    for number, first in enumerate(range(0, options.rows, PIECE)):
        begin = time.time()
        piece = source.draw(number, min(PIECE, options.rows - first))
        truth.add(piece, first)
        np.save(piece_file, piece.cpu().numpy())
        spent["generate"] += time.time() - begin
        begin = time.time()
        db.execute(
            "INSERT INTO t(rowid, e) SELECT rowid + ?, vector FROM warp_vectors_file(?)",
            (first, str(piece_file)),
        )
        took = time.time() - begin
        spent["insert"] += took
        spent["slowest_insert"] = max(spent["slowest_insert"], took)  # the one that trained
        if number % 10 == 9:
            report("progress", rows=first + PIECE, **spent)
    np.save(work / "truth.npy", truth.ids.cpu().numpy())
    piece_file.unlink()
    db.close()
    size = (work / "scale.db").stat().st_size
    report("build", rows=options.rows, index=options.index, codes=options.codes, **spent,
           file_gb=size / 2**30, bytes_a_row=size / options.rows, memory_gb=memory())


def timed(statement, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        statement()
        times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2]


def recall(found, truth, first):
    """`found`: [queries][K] rowids."""
    same = [len(set(a) & set(b)) for a, b in zip((found - first).tolist(), truth.tolist())]
    return float(np.mean(same)) / K


def search(options):
    work = Path(options.work)
    queries, truth = np.load(work / "queries.npy"), np.load(work / "truth.npy")
    begin = time.time()
    db = connect(options)
    first = db.execute("SELECT min(rowid) FROM t").fetchone()[0]
    opened = time.time() - begin
    one = "SELECT rowid FROM warp_knn_search('t', 'e', ?, 10, ?)"
    probes = [int(n) for n in options.nprobe.split(",")]
    asked = {n: json.dumps({"nprobe": n, "refine": options.refine}) for n in probes}
    if options.refine is None:
        asked = {n: json.dumps({"nprobe": n}) for n in probes}
    db.execute(one, (queries[0].tobytes(), asked[probes[0]])).fetchall()
    report("open", seconds=opened, to_first_answer=time.time() - begin, memory_gb=memory())
    begin = time.time()
    while True:  # until the device has it
        took = timed(lambda: db.execute(one, (queries[1].tobytes(), asked[probes[0]])).fetchall(), 3)
        if took < 0.02 or time.time() - begin > 120:
            break
    report("ready", after=time.time() - begin, memory_gb=memory(),
           devices=[list(row) for row in db.execute("SELECT * FROM warp_devices()")])
    arrays = "SELECT rowids FROM warp_knn_arrays('t', 'e', ?, 10, ?)"
    every = queries.tobytes()
    for nprobe in probes:
        numbers = iter(range(QUERIES))
        single = timed(
            lambda: db.execute(one, (queries[next(numbers)].tobytes(), asked[nprobe])).fetchall(),
            200)
        blob = db.execute(arrays, (every, asked[nprobe])).fetchone()[0]
        found = np.frombuffer(blob, np.int64).reshape(QUERIES, K)
        report("search", nprobe=nprobe, recall=recall(found, truth, first), one_query_ms=single * 1e3,
               queries_10000_ms=timed(
                   lambda: db.execute(arrays, (every, asked[nprobe])).fetchall(), 7) * 1e3)
    begin = time.time()
    hits = db.execute(
        "SELECT rowid, distance, e FROM t WHERE e MATCH ? AND k = 10", (queries[0].tobytes(),)
    ).fetchall()
    report("vectors_of_10", ms=(time.time() - begin) * 1e3, rows=len(hits), memory_gb=memory())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--index", default="ivfrabitq")
    parser.add_argument("--codes", action="store_true")
    parser.add_argument("--nprobe", default="16,32,64,128,256")
    parser.add_argument("--refine", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--step", choices=("build", "search"))
    options = parser.parse_args()
    if options.step:
        return {"build": build, "search": search}[options.step](options)
    for step in ("build", "search"):  # two processes, so that the table is opened anew
        subprocess.run([sys.executable, *sys.argv, "--step", step], check=True, env=os.environ)


if __name__ == "__main__":
    main()
