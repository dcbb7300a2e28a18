"""Shards that were cut by nearness: which of them a row belongs to, and which a query looks into."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ._answers import Array, Columns
from ._manifest import Manifest, Shard
from ._reading import Question
from ._table import distance


def nearest_centroids(folder: str, manifest: Manifest, vectors: Array, count: int) -> Array:
    """Returns the places of the nearest centroids, [n, count]. By l2; of unit vectors, that is the order of cosine."""
    assert manifest.centroids is not None
    centroids = np.load(os.path.join(folder, manifest.centroids[1]))
    if distance(manifest.schema, manifest.centroids[0]) == "cosine":
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    far = (centroids**2).sum(1) - 2 * vectors @ centroids.T
    return np.argsort(far, axis=1, kind="stable")[:, :count]


class Router:
    """Which shards each query looks into."""

    def __init__(self, nearest: Array) -> None:
        self.nearest = nearest  # [q, probe], places of shards

    def __getitem__(self, some: slice) -> Router:
        """Returns that of some of the queries, which are asked together."""
        return Router(self.nearest[some])

    def ask(
        self, manifest: Manifest, question: Question, ask: Callable[[Question, Sequence[Shard]], tuple[Columns, float]]
    ) -> tuple[Columns, float]:
        """Asks queries of one set of shards together. Returns the least share of the rows that a query looked at, too.

        REQUIRES: the question has this router's queries.
        """
        sets, which = np.unique(np.sort(self.nearest, axis=1), axis=0, return_inverse=True)
        which = which.reshape(-1)
        found: Columns = {}
        coverage = 1.0
        for number, places in enumerate(sets):
            rows = np.flatnonzero(which == number)
            part, covered = ask(replace(question, queries=question.queries[rows]), [manifest.shards[i] for i in places])
            coverage = min(coverage, covered)
            for name, values in part.items():
                found.setdefault(name, np.empty((len(which), *values.shape[1:]), values.dtype))[rows] = values
        return found, coverage
