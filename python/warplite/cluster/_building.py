"""How a source becomes shards: what is drawn for training, who writes which rows, and the commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayTaskError

from .._vectors import as_array
from . import _manifest, _sources, _writing
from ._answers import Array
from ._errors import ClusterError
from ._manifest import Manifest, Shard
from ._routing import nearest_centroids
from ._sources import Piece
from ._table import Table, distance
from ._writing import Order


def only_vector(table: Table) -> str:
    return next(iter(table.vectors)) if len(table.vectors) == 1 else ""


def results(references: list[Any]) -> Any:
    """Returns what tasks give. Raises what they raised."""
    try:
        return ray.get(references)
    except RayTaskError as error:
        raise error.cause from None


def carry_out(folder: str, manifest: Manifest, orders: Sequence[Order]) -> list[Shard]:
    """Writes shards in tasks, which Ray runs again when they die."""
    write: Any = ray.remote(_writing.write)
    return list(results([write.options(max_retries=5).remote(folder, manifest.copies, order) for order in orders]))


def commit(folder: str, manifest: Manifest, shards: list[Shard]) -> Manifest:
    next_id = max([manifest.next_id, *(shard.high + 1 for shard in shards if shard.rows)])
    after = manifest.after(shards, next_id=next_id)
    _manifest.write(folder, after)
    swept = _manifest.sweep(folder, after)
    if swept != after:
        _manifest.write(folder, swept)
    return after


def dealt(folder: str, manifest: Manifest, orders: list[Order], pieces: list[Piece], rows: int) -> list[Order]:
    """Returns the orders, each with its rows: consecutive ones, or those near its centroid."""
    if manifest.centroids is None or not pieces:
        bounds = [rows * i // len(orders) for i in range(len(orders) + 1)]
        return [
            replace(order, pieces=tuple(_sources.between(pieces, low, high)))
            for order, low, high in zip(orders, bounds, bounds[1:])
        ]
    assign: Any = ray.remote(_assigned)
    options = (folder, manifest, orders[0].column, len(orders))
    nearest = np.concatenate(results([assign.remote(*options, piece) for piece in pieces]))
    dealt = [
        replace(order, pieces=tuple(pieces), chosen=np.flatnonzero(nearest == i)) for i, order in enumerate(orders)
    ]
    return [order for order in dealt if len(order.chosen) or order.base is None]


def _assigned(folder: str, manifest: Manifest, column: str, shards: int, piece: Piece) -> Array:
    """Returns the place of the nearest centroid of each row of a piece. Rows without a vector go to all in turn."""
    assert manifest.centroids is not None
    name = manifest.centroids[0]
    parts = []
    for first, arrays in _sources.read(piece, column):
        given = [values for key, values in arrays.items() if key.lower() == name.lower()]
        places = (first + np.arange(len(next(iter(arrays.values()))))) % shards
        if given:
            vectors = _writing.vectors_of(manifest.schema, name, given[0])
            there = ~np.isnan(vectors).any(axis=1)
            places[there] = nearest_centroids(folder, manifest, vectors[there], 1)[:, 0]
        parts.append(places)
    return np.concatenate(parts)


def draw(pieces: list[Piece], table: Table, column: str, rows: int) -> dict[str, Any]:
    """Returns the vectors of so many rows, evenly from all of the source."""
    every = max(1, -(-_sources.rows_in(pieces) // max(1, rows)))
    draw: Any = ray.remote(_drawn)
    parts = results([draw.remote(piece, column, tuple(table.vectors), every) for piece in pieces])
    drawn = {name: [part[name] for part in parts] for name in (parts[0] if parts else ())}
    return {
        name: np.concatenate(arrays) if all(a.ndim == 2 for a in arrays) else [row for a in arrays for row in a]
        for name, arrays in drawn.items()
    }


def _drawn(piece: Piece, column: str, names: tuple[str, ...], every: int) -> dict[str, Array]:
    drawn: dict[str, list[Any]] = {}
    for first, arrays in _sources.read(piece, column):
        length = len(next(iter(arrays.values())))
        rows = np.arange(-first % every, length, every)
        for name, values in arrays.items():
            if name.lower() in names:
                drawn.setdefault(name, []).extend(as_array(_sources.take(values, rows)))
    return {name: as_array(rows) for name, rows in drawn.items()}


def learn(folder: str, schema: str, table: Table, drawn: dict[str, Any]) -> dict[str, str]:
    """Trains each index that learns, once, and writes what it has learnt into the folder; returns the files."""
    if not table.learning or not drawn:
        return {}
    train: Any = ray.remote(_writing.train)
    models: dict[str, bytes] = results([train.remote(schema, drawn)])[0]
    os.makedirs(os.path.join(folder, "models"), exist_ok=True)
    files = {}
    for number, (column, model) in enumerate(models.items()):
        files[column] = f"models/{number}.model"
        _manifest.write_file(os.path.join(folder, files[column]), model)
    return files


def find_centroids(
    folder: str, table: Table, schema: str, column: str, count: int, drawn: dict[str, Any]
) -> tuple[str, str]:
    type_ = table.vectors.get(column.lower())
    if type_ is None or type_.kind == "bit" or distance(schema, column) not in ("l2", "cosine"):
        raise ClusterError(f"{table.name}.{column}: a cluster is cut by a column of vectors with distance=l2 or cosine")
    find: Any = ray.remote(_writing.centroids_of)
    there = column.lower() in map(str.lower, drawn)
    centroids = results([find.remote(schema, column, count, drawn)])[0] if there else ()
    if not len(centroids):
        raise ClusterError(f"{table.name}.{column}: the source has no vectors to cut the cluster by")
    file = "centroids.npy"
    np.save(os.path.join(folder, file), centroids)
    return column, file


def check_distinct(folder: str, schema: str, shards: list[Shard]) -> None:
    """Raises ClusterError where two shards have a row of one id: each looked at its own rows alone."""
    filled = sorted((shard for shard in shards if shard.rows), key=lambda shard: shard.low)
    if all(one.high < other.low for one, other in zip(filled, filled[1:])):
        return
    every: Any = ray.remote(_writing.all_ids)
    ids = np.concatenate(results([every.remote(os.path.join(folder, s.file), schema) for s in filled]))
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise ClusterError(f"the id {values[counts > 1][0]} comes twice")


def packed(shards: Sequence[Shard], most: int) -> list[list[Shard]]:
    """Returns groups of up to so many rows: small shards share one, each of the others is alone."""
    groups: list[list[Shard]] = []
    for shard in sorted(shards, key=lambda shard: shard.rows):
        if groups and sum(s.rows for s in groups[-1]) + shard.rows <= most:
            groups[-1].append(shard)
        else:
            groups.append([shard])
    return groups
