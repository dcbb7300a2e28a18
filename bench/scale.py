#!/usr/bin/env python3
"""A large table with an index of lists: built, opened, searched.

    bench/scale.py --build build/gpu --work /tmp/scale [--rows 100000000] [--dim 96]
                   [--index "ivfrabitq(bits=4)"] [--codes] [--learn-from 1000000] [--nprobe 32,64,128] [--refine 4]
                   [--device gpu:0,gpu] [--batch 10000,40000] [--gpu-memory-limit 8GB]
                   [--step build|search|graph|clusters]

Vectors come from a seeded generator, a million at a time, so that neither disk nor memory ever holds
all of them: 50,000 clusters of unequal weight and width around a spectrum that decays as i^-0.9, turned at
random. A million of them have a local intrinsic dimensionality of 20 to 22 and a relative contrast of 2.3,
as descriptors of real images have. Queries are further rows. The exact answer of the first 1,000 queries is
found on the way, by brute force over every piece. Rows are committed a million at a time, but for those that
the index is to learn from, which are one transaction. Needs PyTorch with a GPU for that; the table itself is
built and asked through SQL alone. --codes: the table keeps codes only. --index flat: every row is compared.
Each device of the list is asked in turn, one query at a time and in batches. --step graph: the nearest others
of every row of a table that is there. --step clusters [--clusters 4096] [--passes 10]: k-means over all rows of it,
on each device of the list. --gpu-memory-limit: what a GPU may hold; the rest it reads over the bus.
"""

import argparse
import hashlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from record import report, timed

CLUSTERS, DECAY, SPREAD = 50_000, 0.9, 0.8
PIECE = 1_000_000
JUDGED, K = 1000, 10


class Generator:
    def __init__(self, torch, dim):
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        seeded = self.seeded(0)
        steps = torch.arange(1, dim + 1, device=self.device).float()
        self.scale = (steps**-DECAY).sqrt()
        self.centers = self.normal(CLUSTERS, dim, seeded) * self.scale
        self.width = SPREAD * (0.5 + self.uniform(CLUSTERS, seeded)[:, None])
        self.weight = self.uniform(CLUSTERS, seeded) ** 3
        self.turn = torch.linalg.qr(self.normal(dim, dim, seeded))[0]

    def seeded(self, seed):
        return self.torch.Generator(device=self.device).manual_seed(seed)

    def normal(self, rows, columns, seeded):
        return self.torch.randn(rows, columns, generator=seeded, device=self.device)

    def uniform(self, rows, seeded):
        return self.torch.rand(rows, generator=seeded, device=self.device)

    def draw(self, seed, rows):
        seeded = self.seeded(1 + seed)
        which = self.torch.multinomial(self.weight, rows, replacement=True, generator=seeded)
        noise = self.normal(rows, len(self.scale), seeded) * self.scale
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
    db.execute("PRAGMA page_size = 65536")  # of a new file: large blocks are read twice as fast
    db.execute("PRAGMA mmap_size = 1000000000000")
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('device', ?)", (options.device.split(",")[-1],))
    db.execute("SELECT warp_config('gpu_memory_limit', ?)", (options.gpu_memory_limit,))
    db.execute("SELECT warp_config('training_seconds', 120)")  # hundreds of thousands of lists
    return db


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1048576


def build(options):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    (work / "scale.db").unlink(missing_ok=True)
    source = Generator(torch, options.dim)
    queries = source.draw(-1, max(batches(options)))
    np.save(work / "queries.npy", queries.cpu().numpy())
    truth = Truth(torch, queries[:JUDGED])
    db = connect(options)
    db.execute(
        f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{options.dim}] index={options.index}"
        + (", store=codes)" if options.codes else ")")
    )

    def draw(number, first):
        piece = source.draw(number, min(PIECE, options.rows - first))
        truth.add(piece, first)
        path = work / f"piece{number % 2}.npy"
        np.save(path, piece.cpu().numpy())
        return path

    spent = {"wait_for_rows": 0.0, "insert": 0.0, "slowest_insert": 0.0}
    aside = ThreadPoolExecutor(1)  # draws a piece while the one before is inserted
    pieces = list(enumerate(range(0, options.rows, PIECE)))
    drawn = [aside.submit(draw, *pieces[0])]
    for number, first in pieces:
        begin = time.time()
        piece_file = drawn.pop().result()
        if number + 1 < len(pieces):
            drawn.append(aside.submit(draw, *pieces[number + 1]))
        spent["wait_for_rows"] += time.time() - begin
        begin = time.time()
        if first == 0 and options.learn_from > PIECE:
            db.execute("BEGIN")
        db.execute(
            "INSERT INTO t(rowid, e) SELECT rowid + ?, vector FROM warp_vectors_file(?)",
            (first, str(piece_file)),
        )
        if db.in_transaction and first + PIECE >= options.learn_from:
            db.execute("COMMIT")
        took = time.time() - begin
        spent["insert"] += took
        spent["slowest_insert"] = max(spent["slowest_insert"], took)  # the one that trained
        if number % 10 == 9:
            report("progress", rows=first + PIECE, **spent)
    if db.in_transaction:
        db.execute("COMMIT")
    np.save(work / "truth.npy", truth.ids.cpu().numpy())
    for path in work.glob("piece*.npy"):
        path.unlink()
    db.close()
    size = (work / "scale.db").stat().st_size
    report("build", rows=options.rows, index=options.index, codes=options.codes, **spent,
           file_gb=size / 2**30, bytes_a_row=size / options.rows, memory_gb=memory())


def recall(found, truth, first):
    """`found`: [queries][K] rowids."""
    same = [len(set(a) & set(b)) for a, b in zip((found - first).tolist(), truth.tolist())]
    return float(np.mean(same)) / K


def batches(options):
    return [int(n) for n in options.batch.split(",")]


def search(options):
    work = Path(options.work)
    queries, truth = np.load(work / "queries.npy"), np.load(work / "truth.npy")
    begin = time.time()
    db = connect(options)
    first = db.execute("SELECT min(rowid) FROM t").fetchone()[0]
    opened = time.time() - begin
    probes = [0] if options.index == "flat" else [int(n) for n in options.nprobe.split(",")]
    given = {} if options.refine is None else {"refine": options.refine}
    asked = {n: json.dumps({**given, **({"nprobe": n} if n else {})}) for n in probes}
    bound = {n: queries[:n].tobytes() for n in {JUDGED, *batches(options)}}

    def one(number, nprobe):
        statement = "SELECT rowid FROM warp_knn_search('t', 'e', ?, 10, ?)"
        return db.execute(statement, (queries[number].tobytes(), asked[nprobe])).fetchall()

    def many(count, nprobe):
        statement = "SELECT rowids FROM warp_knn_arrays('t', 'e', ?, 10, ?)"
        return db.execute(statement, (bound[count], asked[nprobe])).fetchone()[0]

    one(0, probes[0])
    report("open", seconds=opened, to_first_answer=time.time() - begin, memory_gb=memory())
    for device in options.device.split(","):
        db.execute("SELECT warp_config('device', ?)", (device,))
        begin = time.time()
        while time.time() - begin < 120:  # until the devices have it
            many(max(batches(options)), probes[0])
            if timed(lambda: one(1, probes[0]), 3) < 20:
                break
        report("ready", device=device, after=time.time() - begin, memory_gb=memory(),
               devices=[list(row) for row in db.execute("SELECT * FROM warp_devices()")],
               held=[list(row) for row in db.execute(
                   "SELECT device, state, sum(bytes) FROM warp_residency() GROUP BY 1, 2")])
        for nprobe in probes:
            numbers = iter(range(1000))
            single = timed(lambda: one(next(numbers), nprobe), 200)
            found = np.frombuffer(many(JUDGED, nprobe), np.int64).reshape(JUDGED, K)
            took = {f"queries_{n}_ms": timed(lambda: many(n, nprobe), 7) for n in batches(options)}
            report("search", device=device, nprobe=nprobe, recall=recall(found, truth, first),
                   one_query_ms=single, **took)
    if not options.codes:
        begin = time.time()
        statement = "SELECT rowid, distance, e FROM t WHERE e MATCH ? AND k = 10"
        hits = db.execute(statement, (queries[0].tobytes(),)).fetchall()
        report("vectors_of_10", ms=(time.time() - begin) * 1e3, rows=len(hits), memory_gb=memory())


def graph(options):
    """The K nearest others of every row, one statement for each nprobe; recall of the first rows."""
    db = connect(options)
    statement = "SELECT %s FROM warp_knn_graph('t', 'e', 10, ?)"

    def first_rows(asked):
        rows = db.execute(statement % "rowid, neighbor" + " LIMIT ?", (asked, JUDGED * K)).fetchall()
        return np.array(rows, np.int64).reshape(JUDGED, K, 2)

    exact = first_rows('{"recall": 1}')
    first = exact[0, 0, 0]
    for nprobe in options.nprobe.split(","):
        asked = json.dumps({"nprobe": int(nprobe)})
        found = first_rows(asked)
        assert (found[..., 0] == exact[..., 0]).all()
        begin = time.time()
        pairs = db.execute(statement % "count(*), sum(distance)", (asked,)).fetchone()[0]
        report("graph", nprobe=int(nprobe), seconds=time.time() - begin, pairs=pairs,
               recall=recall(found[..., 1], exact[..., 1] - first, first), memory_gb=memory())


def clusters(options):
    """The first time rows are sent to devices; `same`: the clusters are those of the first device."""
    db = connect(options)
    statement = "SELECT centroid, size FROM warp_kmeans('t', 'e', ?, ?)"
    made = []
    for device in options.device.split(","):
        db.execute("SELECT warp_config('device', ?)", (device,))
        took = []
        for _ in range(4):
            begin = time.perf_counter()
            found = db.execute(statement, (options.clusters, options.passes)).fetchall()
            took.append(time.perf_counter() - begin)
        made.append(hashlib.sha256(b"".join(c + n.to_bytes(8, "little") for c, n in found)).hexdigest())
        report("clusters", device=device, clusters=len(found), passes=options.passes,
               first_seconds=took[0], seconds=sorted(took[1:])[1], same=made[-1] == made[0],
               memory_gb=memory())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--index", default="ivfrabitq")
    parser.add_argument("--codes", action="store_true")
    parser.add_argument("--learn-from", type=int, default=PIECE, help="rows of the first transaction")
    parser.add_argument("--nprobe", default="16,32,64,128,256")
    parser.add_argument("--refine", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", default="10000", help="queries of a batch")
    parser.add_argument("--gpu-memory-limit", default="0", help="of each GPU; 0: four fifths of it")
    parser.add_argument("--clusters", type=int, default=4096)
    parser.add_argument("--passes", type=int, default=10)
    steps = {"build": build, "search": search, "graph": graph, "clusters": clusters}
    parser.add_argument("--step", choices=steps)
    options = parser.parse_args()
    if options.step:
        return steps[options.step](options)
    for step in ("build", "search"):  # two processes, so that the table is opened anew
        subprocess.run([sys.executable, *sys.argv, "--step", step], check=True, env=os.environ)


if __name__ == "__main__":
    main()
