#!/usr/bin/env python3
"""Recall and time of every approximate index, beside its peers, on the same vectors in one run. One thread each.

    bench/recall.py --base FILE [--queries FILE] [--rows N] [--limit N] [-k 10] > recall.jsonl

FILE is .fvecs, .bvecs or .npy; without --queries the base's last 500 vectors are the queries. They come one at a time, through each
engine's Python API. The time of a query is that of its fastest round, since other work on the machine only adds. Exact search says
what is true. The JSON lines are those of `warplite bench`; bench/plots.py draws them. Engines that cannot be imported are left out.
"""

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness" / "ann_benchmarks"), str(HERE.parent / "python")]
import run  # noqa: E402
import warplite  # noqa: E402
from module import Warplite  # noqa: E402
from warplite._files import open_source  # noqa: E402
from warplite.cli.bench import _machine  # noqa: E402

PROBES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTHS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)  # candidates that a search of a graph keeps


class OurIndex:
    """An index of Warplite's; settings are options of its searches."""

    def __init__(self, index, settings=({},), options=None):
        self.name, self.index, self.settings, self.options = f"Warplite {index}", index, settings, options or {}

    def build(self, base):
        self.table = Warplite("euclidean", self.index)
        self.table.fit(base)

    def set(self, setting):
        self.table.set_query_arguments({**self.options, **setting})

    def search(self, query, k):
        return self.table.query(query, k)

    def batch(self, queries, k):
        self.table.batch_query(queries, k)
        return self.table.get_batch_results()


class Faiss:
    """An index of Faiss's factory; settings are those of its ParameterSpace."""

    def __init__(self, description, parameter, values, construction=None):
        self.faiss = import_module("faiss")
        self.faiss.omp_set_num_threads(1)
        self.name, self.description, self.construction = f"Faiss {description}", description, construction
        self.settings = [{parameter: value} for value in values]

    def build(self, base):
        self.index = self.faiss.index_factory(base.shape[1], self.description)
        if self.construction:
            self.index.hnsw.efConstruction = self.construction
        self.index.train(base)
        self.index.add(base)

    def set(self, setting):
        self.faiss.ParameterSpace().set_index_parameters(self.index, ",".join(f"{k}={v}" for k, v in setting.items()))

    def search(self, query, k):
        return self.batch(query[None], k)[0]

    def batch(self, queries, k):
        return self.index.search(queries, k)[1]


class Hnswlib:
    name, settings = "hnswlib M=16", [{"ef": value} for value in WIDTHS]

    def __init__(self):
        self.hnswlib = import_module("hnswlib")

    def build(self, base):
        self.index = self.hnswlib.Index(space="l2", dim=base.shape[1])
        self.index.init_index(max_elements=len(base), ef_construction=200, M=16)
        self.index.add_items(base)
        self.index.set_num_threads(1)

    def set(self, setting):
        self.index.set_ef(setting["ef"])

    def search(self, query, k):
        return self.batch(query[None], k)[0]

    def batch(self, queries, k):
        return self.index.knn_query(queries, k)[0]


class Usearch:
    name, settings = "usearch M=16", [{"expansion": value} for value in WIDTHS]

    def __init__(self):
        self.usearch = import_module("usearch.index")

    def build(self, base):
        self.index = self.usearch.Index(ndim=base.shape[1], metric="l2sq", connectivity=16, expansion_add=200)
        self.index.add(np.arange(len(base)), base)

    def set(self, setting):
        self.index.expansion_search = setting["expansion"]

    def search(self, query, k):
        return self.batch(query, k)

    def batch(self, queries, k):
        return self.index.search(queries, k, threads=1).keys


class SqliteVec:
    name, settings = "sqlite-vec (exact)", [{}]

    def __init__(self):
        self.path = import_module("sqlite_vec").loadable_path()

    def build(self, base):
        import apsw

        self.db = apsw.Connection(":memory:")
        self.db.enable_load_extension(True)
        self.db.load_extension(self.path)
        self.db.execute(f"CREATE VIRTUAL TABLE t USING vec0(e float[{base.shape[1]}])")
        with self.db:
            self.db.executemany("INSERT INTO t(rowid, e) VALUES (?, ?)", ((i, v.tobytes()) for i, v in enumerate(base)))

    def set(self, setting):
        pass

    def search(self, query, k):
        return [
            row[0] for row in self.db.execute("SELECT rowid FROM t WHERE e MATCH ? AND k = ?", (query.tobytes(), k))
        ]


def engines(rows, dim):
    """Functions that make the engines: ours first, then peers with as many lists."""
    lists = max(16, round(4 * rows**0.5))
    parts = dim // 2 if dim % 2 == 0 else dim
    probes = [{"nprobe": value} for value in PROBES]
    yield lambda: OurIndex("flat")
    yield lambda: OurIndex("approximate", [{"recall": value} for value in (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)])
    yield lambda: OurIndex(f"ivfrabitq(lists={lists})", probes)
    yield lambda: OurIndex(f"ivfflat(lists={lists})", probes)
    yield lambda: OurIndex(f"ivfpq(lists={lists}, bits=4)", probes)
    yield lambda: OurIndex(f"ivfpq(lists={lists})", probes)
    yield lambda: OurIndex("lsh", [{"refine": value} for value in (1, 4, 8, 16, 32, 64, 128)])
    yield lambda: OurIndex("list_of_clusters")
    yield lambda: OurIndex("sss")
    yield lambda: Faiss(f"IVF{lists},Flat", "nprobe", PROBES)
    yield lambda: Faiss(f"IVF{lists},PQ{parts}x4fs,RFlat", "k_factor_rf=8,nprobe", PROBES)
    yield lambda: Faiss("HNSW32", "efSearch", WIDTHS)
    yield Hnswlib
    yield Usearch
    yield SqliteVec


def read(path, rows):
    array = next(open_source(str(path), "e").batches(0, rows), {"e": []})["e"]
    return np.ascontiguousarray(array, np.float32)


def measure(engine, queries, k, truth, rounds):
    """Yields a record for each setting, until one has found everything."""
    for setting in engine.settings:
        engine.set(setting)
        fastest, found = np.full(len(queries), np.inf), []
        for _ in range(rounds):
            found = []
            for i, query in enumerate(queries):
                begin = time.perf_counter()
                found.append(engine.search(query, k))
                fastest[i] = min(fastest[i], time.perf_counter() - begin)
        hits = sum(len(set(map(int, a)) & b) for a, b in zip(found, truth))
        recall = hits / (k * len(queries))
        yield {
            "what": "index",
            "index": engine.name,
            "setting": next(iter(setting.values()), None),
            "recall": recall,
            "ms": fastest.mean() * 1e3,
        }
        if recall > 0.9995:
            break


def machine(base, k, data):
    db = warplite.connect(":memory:")
    cpu = f"{run.machine()['processor']}, one thread"
    return {**_machine(db, base, k, "l2"), "cpu": cpu, "data": data}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--rows", type=int, default=10**9, help="of the base, at most")
    parser.add_argument("--limit", type=int, default=500, help="queries, at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of an engine's name")
    parser.add_argument("-k", type=int, default=10)
    options = parser.parse_args()
    base = read(options.base, options.rows)
    if options.queries:
        queries = read(options.queries, options.limit)
    else:
        base, queries = base[: -options.limit], base[-options.limit :]

    def report(record):
        print(
            json.dumps({key: round(value, 5) if isinstance(value, float) else value for key, value in record.items()}),
            flush=True,
        )

    report(machine(base, options.k, options.base.stem.removesuffix("_base")))
    truth = None
    for make in engines(*base.shape):
        try:
            engine = make()
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        if truth is not None and options.only not in engine.name:
            continue
        begin = time.perf_counter()
        try:
            engine.build(base)
        except Exception as error:
            if "is not available in this version" not in str(error):
                raise
            print(f"left out: {error}", file=sys.stderr)
            continue
        report({"what": "train", "index": engine.name, "s": time.perf_counter() - begin})
        if truth is None:  # of the first, which is exact
            engine.set({})
            truth = [set(engine.search(query, options.k)) for query in queries]
        for record in measure(engine, queries, options.k, truth, options.rounds):
            report(record)


if __name__ == "__main__":
    main()
