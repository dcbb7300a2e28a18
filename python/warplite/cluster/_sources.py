"""Where rows come from: files, Ray Datasets, arrays. A source is a list of pieces, which tasks read for themselves."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._files import ArrowRows, Source, open_source
from ._errors import ClusterError

BATCH_ROWS = 20_000


class ArrayRows(Source):
    """Arrays by columns, as add() takes them."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        lengths = {name: len(values) for name, values in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"arrays of different lengths: {lengths or 'none'}")
        self.arrays = arrays
        self.columns = dict.fromkeys(arrays, "")
        self.rows = next(iter(lengths.values()))

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        for first in range(start, self.rows, size):
            yield {name: values[first : first + size] for name, values in self.arrays.items()}


@dataclass(frozen=True)
class Piece:
    """Rows [start, start + rows) of a file, or of a reference to rows in Ray's memory, which begin as the source's row
    `first`."""

    origin: Any
    start: int
    rows: int
    first: int


def pieces_of(source: Any, column: str) -> list[Piece]:
    """Returns the whole of a source: a path or pattern, a list of them, a Ray Dataset, or arrays by columns.

    column: the name of what a file holds that holds vectors alone.
    """
    origins: list[tuple[Any, int]] = []
    if isinstance(source, dict):
        origins = [_in_memory(ArrayRows(source))]
    elif hasattr(source, "to_arrow_refs"):
        origins = _blocks(source)
    else:
        for path in _paths(source):
            origins.append((path, open_source(path, column).rows))
    pieces, first = [], 0
    for origin, rows in origins:
        if rows:
            pieces.append(Piece(origin, 0, rows, first))
        first += rows
    return pieces


def _in_memory(rows: ArrayRows) -> tuple[Any, int]:
    import ray

    return ray.put(rows.arrays), rows.rows


def _blocks(dataset: Any) -> list[tuple[Any, int]]:
    import ray

    count: Any = ray.remote(lambda table: table.num_rows)
    references = dataset.to_arrow_refs()
    return list(zip(references, ray.get([count.remote(reference) for reference in references])))


def _paths(source: Any) -> list[str]:
    patterns = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    paths: list[str] = []
    for pattern in (str(os.fspath(path)) for path in patterns):
        found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not found:
            raise ClusterError(f"{pattern}: no such file")
        paths += [os.path.abspath(path) for path in found]
    return paths


def rows_in(pieces: list[Piece]) -> int:
    return sum(piece.rows for piece in pieces)


def between(pieces: list[Piece], start: int, stop: int) -> list[Piece]:
    """Returns the rows [start, stop) of a source."""
    cut = []
    for piece in pieces:
        low, high = max(start, piece.first), min(stop, piece.first + piece.rows)
        if low < high:
            cut.append(replace(piece, start=piece.start + low - piece.first, rows=high - low, first=low))
    return cut


def read(piece: Piece, column: str, size: int = BATCH_ROWS) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields batches of a piece's rows, and the number of their first row within the source."""
    taken = 0
    for arrays in _open(piece.origin, column).batches(piece.start, size):
        length = len(next(iter(arrays.values())))
        wanted = min(length, piece.rows - taken)
        if wanted < length:
            arrays = {name: values[:wanted] for name, values in arrays.items()}
        if wanted:
            yield piece.first + taken, arrays
        taken += wanted
        if taken == piece.rows:
            return
    if taken < piece.rows:
        raise ClusterError(f"{piece.origin}: {piece.rows} rows were there from row {piece.start} on, and now {taken}")


def _open(origin: Any, column: str) -> Source:
    if isinstance(origin, str):
        return open_source(origin, column)
    import ray

    rows = ray.get(origin)
    return ArrayRows(rows) if isinstance(rows, dict) else ArrowRows(rows)


def take(values: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Returns some elements, by their numbers."""
    if isinstance(values, list):
        return [values[i] for i in rows]
    return values.take(rows) if hasattr(values, "combine_chunks") or not hasattr(values, "shape") else values[rows]
