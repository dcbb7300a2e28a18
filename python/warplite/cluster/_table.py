"""What a cluster's CREATE statement says."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._loading import connect
from .._sparse import CompressedRows
from .._vectors import VectorType, encode, fetch, query_array, quoted, vector_columns
from ._answers import Array
from ._errors import ClusterError


@dataclass(frozen=True)
class Table:
    """What a CREATE statement says."""

    name: str
    columns: tuple[str, ...]
    names: tuple[str, ...]  # all that expressions may name: the columns, and hidden ones
    vectors: dict[str, VectorType]  # dense ones, by name in lower case
    sparse: dict[str, VectorType]  # the others
    learning: tuple[str, ...]  # those whose index learns


def describe(schema: str) -> Table:
    """Runs the statement in memory.

    Raises ClusterError unless it makes one warp table whose rows a cluster can have, and the SQLite module's own error
    where it is no statement.
    """
    with contextlib.closing(connect(":memory:")) as db:
        db.execute(schema)
        made = fetch(db, "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'")
        if len(made) != 1:
            raise ClusterError("a cluster's schema is one statement, CREATE VIRTUAL TABLE … USING warp(…)")
        name, statement = made[0]
        words = " ".join(statement.replace("=", " = ").lower().split())
        if "text primary key" in words or "content =" in words:
            raise ClusterError(f"{name}: a cluster's rows have integer ids: no TEXT PRIMARY KEY, and no content=")
        hidden = {row[1]: row[6] == 1 for row in fetch(db, f"PRAGMA table_xinfo({quoted(name)})")}
        columns = tuple(column for column in hidden if not hidden[column])
        every = vector_columns(db, name)
        vectors = {column: type_ for column, type_ in every.items() if type_.kind != "sparse"}
        sparse = {column: type_ for column, type_ in every.items() if type_.kind == "sparse"}
        learning = tuple(column for column in vectors if _learns(db, name, column))
        return Table(name, columns, tuple(hidden), vectors, sparse, learning)


def _learns(db: Any, table: str, column: str) -> bool:
    try:
        fetch(db, "SELECT warp_model(?, ?)", (table, column))
    except Exception as error:
        if "does not learn" in str(error):
            return False
        raise
    return True


def encoded(table: Table, column: str, queries: Any) -> Array | CompressedRows:
    """Returns queries as a column's bytes, uint8 [q, bytes of a vector], or as rows of a sparse one.

    Raises ValueError for what are none.
    """
    type_ = table.vectors.get(column.lower())
    where = f"{table.name}.{column}"
    if column.lower() in table.sparse:
        return CompressedRows(queries, table.sparse[column.lower()], where)
    if type_ is None:
        raise ValueError(f"{where} is no column of vectors")
    return encode(query_array(queries, type_, where), type_, where)


def decoded(raw: Array, type_: VectorType) -> Array:
    """Returns vectors, float32 [n, dim], from their bytes, uint8 [n, bytes of a vector]."""
    if type_.kind == "bfloat16":  # the upper half of a float32
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    return raw.view({"float32": "<f4", "float16": "<f2", "int8": "i1"}[type_.kind]).astype(np.float32, copy=False)


def as_ids(values: Any, where: str) -> Array:
    """Returns ids, int64 [n]. Raises ValueError, which names `where`, for what are none: 1.5, NULL, 2**63."""
    given = np.asarray(values).reshape(-1)
    if given.dtype.kind in "iu" and given.max(initial=0) < 2**63:
        return given.astype(np.int64, copy=False)
    ids = np.empty(len(given), np.int64)
    for place, value in enumerate(given.tolist()):
        try:
            ids[place] = int(value)
            fits = isinstance(value, str) or ids[place] == value  # a CSV file has texts
        except (TypeError, ValueError, OverflowError):
            fits = False
        # A float of 2**53 may have been another integer. Dates and truth values are numbers to NumPy alone.
        if not fits or given.dtype.kind in "bmM" or (isinstance(value, float) and abs(value) >= 2**53):
            raise ValueError(f"{where}: expected integers of 64 bits, got {value!r}")
    return ids


def bytes_each(queries: Array | CompressedRows) -> int:
    """Returns how many bytes the longest of the queries has."""
    return 8 * queries.longest if isinstance(queries, CompressedRows) else int(queries.shape[1])


def option(schema: str, column: str, name: str, default: str = "") -> str:
    """Returns what a column is declared with, e.g. its distance."""
    words = rf"\b{re.escape(column)}\W+\w+(?:\s*\[\s*\d+\s*\])?((?:[^,()]|\([^)]*\))*)"
    declared = re.search(words, schema, re.IGNORECASE)
    value = declared and re.search(rf"{name}\s*=\s*(\w+)", declared[1], re.IGNORECASE)
    return value[1].lower() if value else default


def distance(schema: str, column: str) -> str:
    return option(schema, column, "distance(?:_metric)?", "l2")
