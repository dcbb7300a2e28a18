"""Shards' files as tasks write them: what indexes learn, which rows a file is to hold, and how it gets them.

No Ray here but in references to rows. Threads: any; each call has connections of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._loading import connect
from .._rows import add, transaction
from .._vectors import as_array, encode, fetch, quoted
from . import _sources
from ._answers import Array
from ._errors import ClusterError
from ._manifest import Shard, install
from ._sources import Piece
from ._table import Table, as_ids, decoded, describe


def train(schema: str, sample: dict[str, Any]) -> dict[str, bytes]:
    """Returns what each index that learns has learnt from the sample, and nothing of those it has too few rows for."""
    table = describe(schema)
    with contextlib.closing(connect(":memory:", isolation_level=None)) as db:
        db.execute(schema)
        add(db, table.name, None, **sample)
        try:
            db.execute(f"INSERT INTO {quoted(table.name)}({quoted(table.name)}) VALUES ('train')")
        except Exception as error:
            if "needs at least" not in str(error):
                raise
        models = {c: fetch(db, "SELECT warp_model(?, ?)", (table.name, c))[0][0] for c in table.learning}
        return {column: model for column, model in models.items() if model is not None}


def centroids_of(schema: str, column: str, count: int, sample: dict[str, Any]) -> Array:
    """Returns centroids of so many clusters of the sample's vectors, float32 [count, dim]."""
    table = describe(schema)
    with contextlib.closing(connect(":memory:", isolation_level=None)) as db:
        db.execute(schema)
        add(db, table.name, None, **sample)
        rows = fetch(db, "SELECT centroid FROM warp_kmeans(?, ?, ?) ORDER BY cluster", (table.name, column, count))
        return np.array([np.frombuffer(centroid, "<f4") for (centroid,) in rows])


def vectors_of(schema: str, column: str, values: Any) -> Array:
    """Returns a column's vectors as a source has them, float32 [n, dim], NaN where there is none.

    Raises what inserting them raises.
    """
    table = describe(schema)
    type_ = table.vectors[column.lower()]
    array = as_array(values)
    if array.dtype != object:
        return decoded(encode(array, type_, f"{table.name}.{column}"), type_)
    with contextlib.closing(connect(":memory:", isolation_level=None)) as db:  # NULL, JSON texts, BLOBs
        db.execute(schema)
        add(db, table.name, None, **{column: array})
        cells = fetch(db, f"SELECT {quoted(column)} FROM {quoted(table.name)} ORDER BY rowid")
    there = [place for place, (cell,) in enumerate(cells) if cell is not None]
    vectors = np.full((len(cells), type_.dim), np.nan, np.float32)
    raw = b"".join(cells[place][0] for place in there)
    vectors[there] = decoded(np.frombuffer(raw, np.uint8).reshape(-1, type_.bytes), type_)
    return vectors


@dataclass(frozen=True)
class Order:
    """What a shard's file is to hold.

    Files are relative to the cluster's folder. models: by column, those that it gets where it is new. base: the file
    that it begins as a copy of. merge: files whose rows come
    along. delete: ids that go. pieces: rows that come, of which `chosen` names some by their numbers in the source, if
    it is given. ids: the source's column of ids; without one, row n of the source has the id first_id + n.
    """

    schema: str
    number: int
    file: str
    models: dict[str, str] = field(default_factory=dict)
    base: str | None = None
    merge: tuple[str, ...] = ()
    delete: Sequence[int] = ()
    pieces: tuple[Piece, ...] = ()
    chosen: Any = None
    column: str = ""
    ids: str | None = None
    first_id: int = 0
    deleted: int = 0  # rows that were deleted from the base before
    compact: bool = True


def write(folder: str, replicas: Sequence[str], order: Order) -> Shard:
    """Writes a file and its copies, each built under a name of its own and renamed when it is whole.

    It may run again, also beside a run of the same order that has not ended: each gives the same rows.
    """
    temporary = os.path.join(folder, f"{order.file}.{uuid.uuid4().hex}.part")
    try:
        shard = _build(folder, temporary, order)
        for replica in replicas:
            copy_file(temporary, os.path.join(replica, order.file))
        install(temporary, os.path.join(folder, order.file))
        return shard
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def copy_file(path: str, copy: str) -> None:
    """Copies a file that nobody writes, wholly or not at all."""
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    temporary = f"{copy}.{uuid.uuid4().hex}.part"
    try:
        shutil.copyfile(path, temporary)
        install(temporary, copy)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _build(folder: str, path: str, order: Order) -> Shard:
    if order.base is not None:
        shutil.copyfile(os.path.join(folder, order.base), path)
    # Nothing but the whole file counts: what a crash leaves has no name that anybody reads.
    with contextlib.closing(connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = MEMORY")
        if order.base is None:
            db.execute(order.schema)
        table = describe(order.schema)
        for column, file in order.models.items() if order.base is None else ():
            with open(os.path.join(folder, file), "rb") as model:
                db.execute("SELECT warp_use_model(?, ?, ?)", (table.name, column, model.read())).fetchall()
        for file in order.merge:
            _merge(db, table, os.path.join(folder, file))
        deleted = _delete(db, table, order.delete) if len(order.delete) else 0
        _insert(db, table, order)
        if order.compact:
            db.execute(f"INSERT INTO {quoted(table.name)}({quoted(table.name)}) VALUES ('optimize')")
        [(rows, low, high)] = fetch(db, f"SELECT count(*), min(rowid), max(rowid) FROM {quoted(table.name)}")
        return Shard(order.number, order.file, rows, low or 0, high or 0, order.deleted + deleted)


def _merge(db: Any, table: Table, path: str) -> None:
    db.execute("ATTACH ? AS other", (path,))
    columns = ", ".join(map(quoted, ("rowid", *table.columns)))
    name = quoted(table.name)
    db.execute(f"INSERT INTO main.{name}({columns}) SELECT {columns} FROM other.{name} ORDER BY rowid")
    db.execute("DETACH other")


def _delete(db: Any, table: Table, ids: Sequence[int]) -> int:
    before = db.total_changes
    listed = json.dumps([int(i) for i in ids])
    db.execute(f"DELETE FROM {quoted(table.name)} WHERE rowid IN (SELECT value FROM json_each(?))", (listed,))
    return int(db.total_changes - before)


def _insert(db: Any, table: Table, order: Order) -> None:
    with transaction(db):
        for rowids, arrays in batches(order):
            add(db, table.name, rowids, **arrays)


def batches(order: Order) -> Iterator[tuple[Array, dict[str, Any]]]:
    """Yields ids and columns of the rows that come."""
    chosen = None if order.chosen is None else np.asarray(order.chosen)
    for piece in order.pieces:
        for first, arrays in _sources.read(piece, order.column):
            length = len(next(iter(arrays.values())))
            if chosen is not None:
                some = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + length)] - first
                arrays = {name: _sources.take(values, some) for name, values in arrays.items()}
            else:
                some = np.arange(length)
            if not len(some):
                continue
            rowids = some + (order.first_id + first)
            if order.ids is not None:
                if order.ids not in arrays:
                    raise ClusterError(f"ids: the source has no column {order.ids!r}; it has {', '.join(arrays)}")
                rowids = as_ids(arrays.pop(order.ids), order.ids)
            yield rowids, arrays


def ids_there(path: str, schema: str, ids: Sequence[int]) -> list[int]:
    """Returns those of the ids that a shard's file has."""
    sql = f"SELECT rowid FROM {quoted(describe(schema).name)} WHERE rowid IN (SELECT value FROM json_each(?))"
    with contextlib.closing(connect(path)) as db:
        return [row[0] for row in fetch(db, sql, (json.dumps([int(i) for i in ids]),))]


def all_ids(path: str, schema: str) -> Array:
    """Returns the ids of a shard's file."""
    with contextlib.closing(connect(path)) as db:
        rows = fetch(db, f"SELECT rowid FROM {quoted(describe(schema).name)}")
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))
