"""Answers, and how those of shards become one.

Rows are ordered as one file orders them: by distance, or by matches downwards, and then by id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Answer(Protocol):
    """What every answer has.

    coverage: the share of the cluster's rows that was searched, 1.0 unless `allow_partial` or `probe` was asked for.
    generation: that of the manifest, for all of the answer.
    """

    @property
    def coverage(self) -> float: ...
    @property
    def generation(self) -> int: ...


class Neighbors(NamedTuple):
    """ids, int64 [q, k], and distances, float64 [q, k]; -1 and NaN where there are fewer."""

    ids: Array
    distances: Array
    coverage: float
    generation: int


class Matches(NamedTuple):
    """ids, int64 [q, k], and matches, int64 [q, k]; -1 and 0 where there are fewer."""

    ids: Array
    matches: Array
    coverage: float
    generation: int


class Sequences(NamedTuple):
    """Neighbors under edit distance; certified, bool [q]: the k are proven to be the nearest."""

    ids: Array
    distances: Array
    certified: Array
    coverage: float
    generation: int


class Pairs(NamedTuple):
    """Everything within a radius: one element a row, ascending by query (from 0), distance and id."""

    queries: Array
    ids: Array
    distances: Array
    coverage: float
    generation: int


class Fused(NamedTuple):
    """ids, int64 [n], and scores, float64 [n], best first; ranks, int64 [n, sources], from 1; 0: not in that source."""

    ids: Array
    scores: Array
    ranks: Array
    coverage: float
    generation: int


Columns = dict[str, Array]
"""What a shard answers: arrays [q, k] by name, or [rows] with one named `query`."""


def merge_best(parts: Sequence[Columns], score: str, k: int) -> Columns:
    """Returns the k best of each query: least distance or most matches, then least id.

    What is missing comes last. A column [q] says of a query what holds for it in every part.
    """
    if len(parts) == 1:
        return parts[0]
    rows = [name for name in parts[0] if parts[0][name].ndim == 2]
    joined = {name: np.concatenate([part[name] for part in parts], axis=1) for name in rows}
    key = -joined[score] if score == "matches" else joined[score]
    order = np.lexsort((joined["id"], key), axis=-1)[:, :k]  # NaN comes last
    best = {name: np.take_along_axis(values, order, axis=1) for name, values in joined.items()}
    for name in parts[0].keys() - best.keys():
        best[name] = np.logical_and.reduce([part[name] for part in parts])
    return best


def merge_all(parts: Sequence[Columns]) -> Columns:
    """Returns every pair, by query, distance and id."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((joined["id"], joined["distance"], joined["query"]))
    return {name: values[order] for name, values in joined.items()}


def by_query(rows: Columns, queries: int, k: int, fill: dict[str, Any]) -> Columns:
    """Returns flat rows, in order within each query, as arrays [queries, k]; `fill`: a missing row's values."""
    query = rows["query"]
    counts = np.bincount(query, minlength=queries) if len(query) else np.zeros(queries, np.int64)
    rank = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    out = {}
    for name, missing in fill.items():
        values = np.full((queries, k), missing, dtype=rows[name].dtype)
        values[query, rank] = rows[name]
        out[name] = values
    return out


def rows_with(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Returns what SQL gave as arrays by name."""
    kinds = {"distance": np.float64}
    cells = list(zip(*rows)) if rows else [()] * len(columns)
    return {name: np.array(values, kinds.get(name, np.int64)) for name, values in zip(columns, cells)}


def ranked(found: Columns) -> tuple[list[int], list[float]]:
    """Returns the ids of an answer's only query, in order, and how far they are: of matches, less is nearer, too."""
    if not found:
        return [], []
    there = found["id"][0] >= 0 if "matches" in found else ~np.isnan(found["distance"][0])
    far = -found["matches"][0] if "matches" in found else found["distance"][0]
    return found["id"][0][there].tolist(), far[there].tolist()


def fuse(lists: Sequence[tuple[list[int], list[float]]], weights: Sequence[float], linear: bool, k: int) -> Columns:
    """Returns the k rows of the highest scores, ties by id; scores are sums to the nearest double."""
    terms: dict[int, list[float]] = {}
    ranks: dict[int, list[int]] = {}
    for number, ((ids, far), weight) in enumerate(zip(lists, weights)):
        for rank, (row, distance) in enumerate(zip(ids, far), 1):
            span = far[-1] - far[0]
            part = 1.0 if span == 0 else (far[-1] - distance) / span
            terms.setdefault(row, []).append(weight * part if linear else weight / (60 + rank))
            ranks.setdefault(row, [0] * len(lists))[number] = rank
    scores = {row: math.fsum(parts) for row, parts in terms.items()}
    best = sorted(scores, key=lambda row: (-scores[row], row))[:k]
    return {
        "id": np.array(best, np.int64),
        "score": np.array([scores[row] for row in best], np.float64),
        "rank": np.array([ranks[row] for row in best], np.int64).reshape(len(best), len(lists)),
    }
