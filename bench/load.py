#!/usr/bin/env python3
"""Many connections at once: threads or processes that each ask one query after the other, with or without
a writer beside them. Every answer is compared with what one connection alone found before.

    bench/load.py --build build/release --work /tmp/load [--rows 100000] [--type "FLOAT[128] index=ivfpq"]
                  [--threads 1,4,16,64] [--processes 1] [--writer 10] [--seconds 5] [--soak]

Prints a line of JSON for each number of threads: queries a second, the median and the slowest of latencies
in milliseconds (to a hundredth of each), wrong answers, errors, and the memory of the processes. Rows are
uniform, as are queries. --writer: a connection that commits a row every so many milliseconds, far from all
queries. --soak: it deletes its oldest row with each, so that the table keeps its size, and memory that is
in use at the end must be what was in use after a quarter of the time; ctest runs an hour of it (`soak`, label
`long`). Needs NumPy. `bench_load` does the same in C++ with the threads of one process: load.db and
queries.fvecs stay in the folder for it.
"""

import argparse
import collections
import json
import math
import multiprocessing
import re
import resource
import sqlite3
import threading
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("load.py needs NumPy")
    raise SystemExit(77)

QUERIES = 256
FAR_ROWS = 1000  # that the soak's writer keeps
GROWTH = 1.05, 32  # of memory: a part, and megabytes beside it


class Latencies:
    """Counts of times, by their logarithms: as many as there are, they take no more memory."""

    STEP = math.log(1.01)

    def __init__(self):
        self.counts = np.zeros(3000, np.int64)

    def add(self, seconds):
        self.counts[min(2999, max(0, int(math.log(max(seconds, 1e-9) * 1e6) / self.STEP)))] += 1

    def ms(self, part):
        total = np.cumsum(self.counts)
        number = int(np.searchsorted(total, part * total[-1], side="right"))
        return round(math.exp((min(number, 2999) + 0.5) * self.STEP) / 1000, 3)


def connect(options):
    db = sqlite3.connect(options.database, isolation_level=None, check_same_thread=False, timeout=60)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build).resolve() / "warplite"))
    if options.cpu_threads:
        db.execute("SELECT warp_config('threads', ?)", (options.cpu_threads,))
    return db


def dimensions(options):
    return int(re.search(r"\[(\d+)\]", options.type)[1])


def prepare(options):
    random = np.random.default_rng(1)
    dim = dimensions(options)
    for suffix in ("", "-wal", "-shm"):
        Path(options.database + suffix).unlink(missing_ok=True)
    db = connect(options)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("SELECT warp_config('training_seconds', 100000)")
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(e {options.type})")
    db.execute("BEGIN")
    for first in range(0, options.rows, 10000):
        rows = random.random((min(10000, options.rows - first), dim), dtype=np.float32)
        db.executemany("INSERT INTO t(rowid, e) VALUES (?, ?)",
                       ((first + i + 1, row.tobytes()) for i, row in enumerate(rows)))  # fmt: skip
    db.execute("COMMIT")
    db.close()
    queries = random.random((QUERIES, dim), dtype=np.float32)
    heads = np.full((QUERIES, 1), dim, np.int32).view(np.float32)
    np.hstack([heads, queries]).tofile(Path(options.work) / "queries.fvecs")
    return [query.tobytes() for query in queries]


def search(db, query, k):
    return [row[0] for row in db.execute("SELECT rowid FROM t WHERE e MATCH ? AND k = ?", (query, k))]


def ask(options, queries, expected, seed, barrier, out):
    """One connection's work until the time is over: out gets (latencies, wrong, errors)."""
    db = connect(options)
    order = np.random.default_rng(seed).permutation(len(queries))
    latencies, wrong, errors = Latencies(), 0, 0
    search(db, queries[0], options.k)
    barrier.wait()
    end = time.perf_counter() + options.seconds
    i = 0
    while (begin := time.perf_counter()) < end:
        number = order[i % len(order)]
        i += 1
        try:
            wrong += search(db, queries[number], options.k) != expected[number]
        except sqlite3.Error:
            errors += 1
        latencies.add(time.perf_counter() - begin)
    out.append((latencies.counts, wrong, errors))


def megabytes_in_use():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * resource.getpagesize() >> 20


def process(options, queries, expected, number, threads, barrier, pipe):
    out = []
    workers = [
        threading.Thread(target=ask, args=(options, queries, expected, 1000 * number + i, barrier, out))
        for i in range(threads)
    ]
    for worker in workers:
        worker.start()
    time.sleep(options.seconds / 4)
    early = megabytes_in_use()
    time.sleep(options.seconds * 0.7)
    late = megabytes_in_use()
    for worker in workers:
        worker.join()
    pipe.send((out, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, early, late))


def write(options, ended):
    """Far rows, one a transaction, as regularly as they are taken."""
    db = connect(options)
    row = np.full(dimensions(options), 1000, np.float32).tobytes()
    rowids = collections.deque()
    while not ended.wait(options.writer / 1000):
        db.execute("BEGIN IMMEDIATE")
        rowids.append(db.execute("INSERT INTO t(e) VALUES (?)", (row,)).lastrowid)
        if options.soak and len(rowids) > FAR_ROWS:
            db.execute("DELETE FROM t WHERE rowid = ?", (rowids.popleft(),))
        db.execute("COMMIT")


def measure(options, queries, expected, threads):
    each = threads // options.processes
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(each * options.processes)
    pipes, workers = [], []
    for number in range(options.processes):
        mine, theirs = context.Pipe(False)
        arguments = (options, queries, expected, number, each, barrier, theirs)
        workers.append(context.Process(target=process, args=arguments))
        workers[-1].start()
        theirs.close()
        pipes.append(mine)
    ended = context.Event()
    writer = context.Process(target=write, args=(options, ended))
    if options.writer:
        writer.start()
    results, memory = [], np.zeros(3, int)
    for pipe in pipes:
        out, *used = pipe.recv()
        results += out
        memory += used
    ended.set()
    for worker in workers + ([writer] if options.writer else []):
        worker.join()
    latencies = Latencies()
    latencies.counts = sum(one[0] for one in results)
    at = latencies.ms
    return {
        "type": options.type, "rows": options.rows, "k": options.k, "threads": each, "processes": options.processes,
        "writer_ms": options.writer, "per_second": round(int(latencies.counts.sum()) / options.seconds), "median_ms": at(0.5),
        "p99_ms": at(0.99), "p999_ms": at(0.999), "wrong": sum(one[1] for one in results),
        "errors": sum(one[2] for one in results), "megabytes": int(memory[0]), "early_megabytes": int(memory[1]),
        "late_megabytes": int(memory[2]),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--type", default="FLOAT[128]", help="of the column, its index included")
    parser.add_argument("--threads", default="1,4,16,64", help="of all processes together")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--writer", type=float, default=0, help="milliseconds between commits")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--cpu-threads", type=int, default=0, help="that searches on the CPU share")
    parser.add_argument("--soak", action="store_true", help="the table keeps its size, and memory must, too")
    options = parser.parse_args()
    Path(options.work).mkdir(parents=True, exist_ok=True)
    options.database = str(Path(options.work).resolve() / "load.db")
    queries = prepare(options)
    db = connect(options)
    expected = [search(db, query, options.k) for query in queries]
    bad = 0
    for threads in map(int, options.threads.split(",")):
        figures = measure(options, queries, expected, threads)
        bad += figures["wrong"] + figures["errors"]
        part, beside = GROWTH
        if options.soak and figures["late_megabytes"] > figures["early_megabytes"] * part + beside:
            bad += 1
        print(json.dumps(figures), flush=True)
    raise SystemExit(bad != 0)


if __name__ == "__main__":
    main()
