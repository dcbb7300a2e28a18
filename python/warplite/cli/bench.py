"""warplite bench: what this machine does, beside what its memory allows."""

from __future__ import annotations

import json
import os
import platform
import time
from typing import TYPE_CHECKING, Any

import click

from .._files import open_source
from .._loading import connect
from .._rows import add
from .._search import search
from . import main, needs, print_table

if TYPE_CHECKING:
    import numpy as np

_NPROBES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@main.command()
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(1000))
@click.option("--dim", default=128, show_default=True, type=click.IntRange(1))
@click.option("--queries", default=1000, show_default=True, type=click.IntRange(1), help="of a batch")
@click.option("-k", default=10, show_default=True, type=click.IntRange(1))
@click.option(
    "--index", default="approximate", show_default=True, help="e.g. 'ivfflat(lists=1000)'; flat: exact search alone"
)
@click.option("--distance", default="l2", show_default=True)
@click.option(
    "--file", "file", type=click.Path(exists=True), help="vectors instead of made ones; its last are the queries"
)
@click.option("--output", type=click.Path(), help="the figures as JSON lines, for warplite plot")
def bench(
    rows: int, dim: int, queries: int, k: int, index: str, distance: str, file: str | None, output: str | None
) -> None:
    """Measures this machine: exact search beside the time that reading the vectors takes, and an index's recall.

    The vectors are made (points near a 16-dimensional surface), or a file's. Everything happens in memory.
    """
    base, asked = _vectors(file, rows, dim, queries)
    db = connect(":memory:")
    figures = [_machine(db, base, k, distance)]
    click.echo("{rows:,} x {dim}, {distance}, k = {k}; {cpu}; {device}".format(**figures[0]))
    seconds = _fill(db, "exact", base, f"distance={distance}")
    figures.append({"what": "insert", "rows_per_s": round(len(base) / seconds)})
    click.echo(f"inserted {len(base) / seconds:,.0f} rows/s")

    figures.append({"what": "floor", "ms": _floor_ms(base)})
    truth = search(db, "exact", "e", asked, k)[0]
    figures.append({"what": "exact", "recall": 1.0, **_times(db, "exact", asked, k, None)})
    if not index.startswith("flat"):
        seconds = _fill(db, "indexed", base, f"distance={distance} index={index}")
        seconds += _train(db, asked)
        click.echo(f"index={index}: inserted and trained in {seconds:.1f} s")
        figures.append({"what": "train", "index": index, "s": seconds})
        figures += _curve(db, index, asked, k, truth)
    _report(figures)
    if output:
        with open(output, "w", encoding="utf-8") as to:
            to.writelines(json.dumps(figure) + "\n" for figure in figures)


def _vectors(file: str | None, rows: int, dim: int, queries: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    import numpy as np

    if file is not None:
        if file.endswith(".parquet"):
            needs("pyarrow", "arrow")
        arrays = next(open_source(file, "e").batches(0, rows + queries), {})
        if "e" not in arrays:
            raise click.ClickException(f"{file}: a file of vectors alone was expected")
        whole = np.asarray(arrays["e"], np.float32)
    else:
        random = np.random.default_rng(1)
        surface = random.standard_normal((min(16, dim), dim)) / 4
        points = random.standard_normal((rows + queries, len(surface))) + 4 * random.integers(0, 2, (rows + queries, 1))
        whole = np.sin(points @ surface).astype(np.float32)
        whole += 0.1 * random.standard_normal(whole.shape, np.float32)
    if len(whole) <= queries:
        raise click.ClickException(f"{len(whole)} vectors are not more than the {queries} queries")
    return whole[:-queries], whole[-queries:]


def _machine(db: Any, base: np.ndarray[Any, Any], k: int, distance: str) -> dict[str, Any]:
    device = db.execute("SELECT name || ' ' || description FROM warp_devices() WHERE usable LIMIT 1").fetchone()[0]
    cpu = f"{platform.machine()}, {os.cpu_count()} cores"
    version = db.execute("SELECT warp_version()").fetchone()[0]
    shape = {"rows": len(base), "dim": base.shape[1]}
    return {"what": "machine", "version": version, **shape, "k": k, "distance": distance, "cpu": cpu, "device": device}


def _fill(db: Any, table: str, base: np.ndarray[Any, Any], options: str) -> float:
    db.execute(f"CREATE VIRTUAL TABLE {table} USING warp(e FLOAT[{base.shape[1]}] {options})")
    began = time.perf_counter()
    add(db, table, range(len(base)), e=base)
    return time.perf_counter() - began


def _train(db: Any, asked: np.ndarray[Any, Any]) -> float:
    """Trains the index, if the rows were too few for it to do so by itself; returns the seconds that took."""
    search(db, "indexed", "e", asked[:1], 1)
    method = db.execute("SELECT method FROM warp_explain() WHERE table_name = 'indexed'").fetchone()
    if method is not None and method[0] != "brute force":
        return 0.0
    began = time.perf_counter()
    db.execute("INSERT INTO indexed(indexed) VALUES ('train')")
    return time.perf_counter() - began


def _floor_ms(base: np.ndarray[Any, Any]) -> float:
    """Returns what reading the vectors once takes on all cores, the best of ten times."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    cores = os.cpu_count() or 1
    parts = np.array_split(np.ascontiguousarray(base).reshape(-1), cores)
    best = float("inf")
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(10):
            began = time.perf_counter()
            list(pool.map(np.max, parts))
            best = min(best, time.perf_counter() - began)
    return best * 1e3


def _times(db: Any, table: str, asked: np.ndarray[Any, Any], k: int, nprobe: int | None) -> dict[str, float]:
    """Returns the median time of single queries, in ms, and a batch's time for each query of it."""
    from statistics import median

    options = {} if nprobe is None else {"nprobe": nprobe}
    sql = "SELECT rowid, distance FROM warp_knn_search(?, 'e', ?, ?, ?)"
    single = []
    for query in asked[:100]:
        began = time.perf_counter()
        db.execute(sql, (table, query.data, k, json.dumps(options))).fetchall()
        single.append(time.perf_counter() - began)
    began = time.perf_counter()
    search(db, table, "e", asked, k, **options)
    batch = time.perf_counter() - began
    return {"ms": median(single) * 1e3, "ms_in_batch": batch * 1e3 / len(asked)}


def _curve(
    db: Any, index: str, asked: np.ndarray[Any, Any], k: int, truth: np.ndarray[Any, Any]
) -> list[dict[str, Any]]:
    figures = []
    for nprobe in _NPROBES if index.startswith("ivf") else (None,):
        options = {} if nprobe is None else {"nprobe": nprobe}
        found = search(db, "indexed", "e", asked, k, **options)[0]
        hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist()))
        recall = hits / truth.size
        times = _times(db, "indexed", asked, k, nprobe)
        figures.append({"what": "index", "index": index, "nprobe": nprobe, "recall": recall, **times})
        if recall > 0.999:
            break
    return figures


def _report(figures: list[dict[str, Any]]) -> None:
    floor = next(figure["ms"] for figure in figures if figure["what"] == "floor")
    rows = [["memory read once", "", f"{floor:.3f}", "", ""]]
    for figure in figures:
        if figure["what"] in ("exact", "index"):
            name = figure.get("index", "exact") + (f" nprobe={figure['nprobe']}" if figure.get("nprobe") else "")
            times = [f"{figure[key]:.3f}" for key in ("ms", "ms_in_batch")]
            rows.append([name, f"{figure['recall']:.3f}", *times, f"{figure['ms'] / floor:.2f}"])
    print_table(["search", "recall", "ms, 1 query", "ms, in a batch", "x memory"], rows)
