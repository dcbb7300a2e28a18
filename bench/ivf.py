#!/usr/bin/env python3
"""Approximate search beside graphs and other inverted files, in one run: how time grows with recall, for queries alone and in batches.

    bench/ivf.py --build build/release [--base FILE --queries FILE] [--rows 200000] [--only NAME …] > ivf.jsonl

FILE is .fvecs, .bvecs or .npy; without one, descriptors are made as bench/gpu.py makes them. One thread each, through each engine's
Python API. Every engine is measured at several settings: {"what": "point"} has the recall@10 and the microseconds of a query, the
fastest of some rounds. {"what": "at"} has the queries a second where its curve passes a recall, and of ours how many times those of each
peer that is. Engines that cannot be imported are left out.
"""

import argparse
import itertools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

K, BATCH, ROUNDS = 10, 1000, 3
RECALLS = (0.95, 0.99)
PROBES = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)


def engines(recall, rows, dim):
    """Functions that make the engines; ours first. REQUIRES: `recall` is bench/recall.py."""
    lists = max(16, round(4 * rows**0.5))
    fine = [{"recall": value} for value in (0.7, 0.8, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)]
    for index in ("approximate", f"ivfpq(lists={lists})", f"ivfpq(lists={lists}, bits=4)", f"ivfflat(lists={lists})"):
        yield lambda index=index: recall.OurIndex(index, fine)
    yield lambda: recall.Faiss("HNSW32", "efSearch", recall.WIDTHS, construction=200)
    yield lambda: recall.Faiss(f"IVF{lists},Flat", "nprobe", PROBES)
    parts = dim // 2 if dim % 2 == 0 else dim
    for factor in (4, 10, 30):
        setting = f"k_factor_rf={factor},nprobe"
        yield lambda setting=setting: recall.Faiss(f"IVF{lists},PQ{parts}x4fs,RFlat", setting, PROBES)
    yield recall.Hnswlib
    yield recall.Usearch


def part_found(found, truth):
    return sum(len(set(map(int, a)) & b) for a, b in zip(found, truth)) / (K * len(truth))


def fastest(run):
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - begin)
    return min(times), found


def points(engine, queries, truth):
    """Recall and microseconds at each setting, until one finds nearly all."""
    some = queries[:200]
    for setting in engine.settings:
        engine.set(setting)
        alone, _ = fastest(lambda: [engine.search(query, K) for query in some])
        batch, found = fastest(lambda: engine.batch(queries, K))
        point = {"setting": setting, "recall": part_found(found, truth)}
        point |= {"alone_us": alone / len(some) * 1e6, "batch_us": batch / len(queries) * 1e6}
        yield point
        if point["recall"] > 0.998:
            break


def at(curve, recall, what):
    """Microseconds where the curve passes a recall: between the points on both sides. None: it does not reach it."""
    curve = sorted(curve, key=lambda point: point["recall"])
    above = [point for point in curve if point["recall"] >= recall]
    if not above:
        return None
    below = [point for point in curve if point["recall"] < recall]
    best = min(above, key=lambda point: point[what])
    if not below or best is not above[0]:
        return best[what]
    low, high = below[-1], above[0]
    part = (recall - low["recall"]) / (high["recall"] - low["recall"])
    return low[what] + part * (high[what] - low[what])


def report(**values):
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}), flush=True)


def compare(curves):
    """What the curves say at RECALLS: several of one name count as one, at its best."""
    for recall, (what, name) in itertools.product(RECALLS, (("alone_us", "alone"), ("batch_us", "batch"))):
        least = {}
        for engine, curve in curves:
            micros = at(curve, recall, what)
            if micros is not None:
                least[engine] = min(micros, least.get(engine, micros))
        for engine, micros in least.items():
            values = {"what": "at", "recall": recall, "queries": name, "index": engine, "per_second": 1e6 / micros}
            if engine.startswith("Warplite"):
                values["times"] = {p: round(t / micros, 2) for p, t in least.items() if not p.startswith("Warplite")}
            report(**values)


def data(options, recall):
    if options.base:
        return recall.read(options.base, options.rows), recall.read(options.queries, BATCH)
    import gpu

    source = gpu.patterns(None)
    return gpu.descriptors(source, options.rows, 1), gpu.descriptors(source, BATCH, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of engines' names")
    options = parser.parse_args()
    if (options.base is None) != (options.queries is None):
        parser.error("--base and --queries go together")
    os.environ["WARPLITE_EXTENSION"] = str((Path(options.build) / "warplite.so").resolve())
    import recall

    base, queries = data(options, recall)
    report(**recall.machine(base, K, options.base.stem if options.base else "made descriptors"))
    exact = recall.OurIndex("flat")
    exact.build(base)
    exact.set({})
    truth = [set(map(int, row)) for row in exact.batch(queries, K)]
    curves = []
    for make in engines(recall, *base.shape):
        try:
            engine = make()
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        if not any(part in engine.name for part in options.only):
            continue
        begin = time.perf_counter()
        engine.build(base)
        report(what="build", index=engine.name, s=time.perf_counter() - begin)
        curve = []
        for point in points(engine, queries, truth):
            report(what="point", index=engine.name, **point)
            curve.append(point)
        curves.append((engine.name, curve))
    compare(curves)


if __name__ == "__main__":
    main()
