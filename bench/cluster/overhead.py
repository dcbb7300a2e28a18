#!/usr/bin/env python3
"""What a cluster costs beside one file with the same rows: both on this machine, asked in turns.

    bench/cluster/overhead.py --build build/release --work /tmp/cluster [--rows 1000000] [--dim 96] [--shards 4]
                              [--index "index=ivfrabitq"] [--batches 1,32,256] [--turns 41]

Prints lines of JSON. `overhead`: for each batch of queries the median time of the file and of the cluster, and their
difference, in milliseconds, with the quartiles of the differences turn by turn; answers of exact searches are compared. `call`: the same for
shards of ten rows each, which is what asking costs. `shard`: times of one file of so many rows, and `merge`: of merging
answers, for simulate.py.
Needs Ray and NumPy.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np

K = 10


def note(**fields):
    print(json.dumps(fields), flush=True)


def timed(call):
    began = time.perf_counter()
    result = call()
    return (time.perf_counter() - began) * 1000, result


def one_file(path, schema, vectors):
    import warplite

    path.unlink(missing_ok=True)
    db = warplite.connect(path, isolation_level=None)
    db.execute(schema)
    for first in range(0, len(vectors), 100_000):
        part = vectors[first : first + 100_000]
        warplite.add(db, "t", np.arange(first, first + len(part)), e=part)
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    return db


def compare(what, db, cluster, queries, turns, exact, **fields):
    import warplite

    times = []
    for turn in range(turns + 3):
        mine, expected = timed(lambda: warplite.search(db, "t", "e", queries, K))
        theirs, found = timed(lambda: cluster.search("e", queries, K))
        if exact:
            assert np.array_equal(found.ids, expected[0]) and np.array_equal(found.distances, expected[1])
        if turn >= 3:  # the first ones read the files
            times.append((mine, theirs))
    mine, theirs = zip(*times)
    difference = [b - a for a, b in times]
    note(what=what, queries=len(queries), file_ms=round(statistics.median(mine), 3),
         cluster_ms=round(statistics.median(theirs), 3), overhead_ms=round(statistics.median(theirs) - statistics.median(mine), 3),
         quartiles_ms=[round(q, 3) for q in statistics.quantiles(difference, n=4)], **fields)  # fmt: skip


def measure_shard(folder, schema, vectors, queries, turns):
    import warplite

    path = folder / "shard.db"
    db = one_file(path, schema, vectors)
    for count in (1, 32):
        times = [timed(lambda: warplite.search(db, "t", "e", queries[:count], K))[0] for _ in range(turns + 3)][3:]
        note(what="shard", rows=len(vectors), queries=count, times_ms=[round(t, 3) for t in times])
    db.close()
    path.unlink()


def measure_merge(queries, parts):
    from warplite.cluster._answers import merge_best

    random = np.random.default_rng(3)
    answers = [{"id": random.integers(0, 1 << 40, (queries, K)), "distance": np.sort(random.random((queries, K)))}
               for _ in range(parts)]  # fmt: skip
    times = [timed(lambda: merge_best(answers, "distance", K))[0] for _ in range(50)]
    note(what="merge", parts=parts, queries=queries, ns_a_row=round(statistics.median(times) * 1e6 / queries / K / parts, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--rows", default=1_000_000, type=int)
    parser.add_argument("--dim", default=96, type=int)
    parser.add_argument("--shards", default=4, type=int)
    parser.add_argument("--index", default="")
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--turns", default=41, type=int)
    parser.add_argument("--sizes", default="", help="rows of shards to measure, e.g. 62500,250000,1000000")
    options = parser.parse_args()
    os.environ["WARPLITE_EXTENSION"] = str(Path(options.build).resolve() / "warplite.so")
    package = str(Path(__file__).resolve().parents[2] / "python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = package

    import ray
    import warplite.cluster

    options.work.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    sizes = [int(size) for size in filter(None, options.sizes.split(","))]
    vectors = random.standard_normal((max(options.rows, *sizes, 0), options.dim), dtype=np.float32)
    queries = random.standard_normal((256, options.dim), dtype=np.float32)
    schema = f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{options.dim}] {options.index})"
    note(what="machine", cores=os.cpu_count(), rows=options.rows, dim=options.dim, index=options.index or "flat")
    for size in sizes:
        measure_shard(options.work, schema, vectors[:size], queries, options.turns)
    for parts in (4, 16, 256):
        measure_merge(32, parts)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for what, rows in (("call", 10 * options.shards), ("overhead", options.rows)):
        folder = options.work / what
        shutil.rmtree(folder, ignore_errors=True)
        took, _ = timed(lambda f=folder, r=rows: warplite.cluster.create(
            f, schema, source={"e": vectors[:r]}, shards=options.shards))  # fmt: skip
        note(what="create", rows=rows, seconds=round(took / 1000, 1))
        db = one_file(options.work / "one.db", schema, vectors[:rows])
        for actors in (1, 2, *[options.shards] * (what == "call")):  # 1 is what open() chooses on one machine
            with warplite.cluster.open(folder, actors=actors) as cluster:
                for count in map(int, options.batches.split(",")):
                    compare(what, db, cluster, queries[:count], options.turns, not options.index, actors=actors)
        db.close()


if __name__ == "__main__":
    main()
