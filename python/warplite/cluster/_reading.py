"""Shards' files as they are searched: ordinary SQLite files with the cluster's table, which never change.

No Ray here. Threads: a Reader's methods are called one at a time; interrupt() at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from .._loading import connect
from .._rows import transaction
from .._sparse import CompressedRows
from .._vectors import fetch
from ._answers import Columns, by_query, merge_all, merge_best, rows_with
from ._errors import ClusterError


@dataclass(frozen=True)
class Question:
    """What every shard is asked.

    queries: encoded vectors, uint8 [q, bytes] or sparse rows; texts; or JSON of match counts.
    """

    operation: str  # a key of _OPERATIONS
    table: str
    column: str
    queries: Any
    k: int = 0
    radius: float = 0.0
    candidates: int | None = None
    most: int | None = None  # rows that a range's answer may have
    options: dict[str, Any] = field(default_factory=dict)


class UnreadableError(ClusterError):
    """A shard's file is missing or damaged, or cannot be read."""


class Reader:
    """A connection to files of shards, at most MOST_FILES. Raises UnreadableError where one has no such table.

    Their nearest rows are searched as those of one table, so that several files take as long as one with their rows.
    """

    MOST_FILES = 10  # SQLite attaches so many

    def __init__(self, paths: Sequence[str], table: str) -> None:
        self._paths = ", ".join(paths)
        for path in paths:
            if not os.path.exists(path):
                raise UnreadableError(f"{path}: no such file")
        uris = [f"file:{quote(path)}?mode=ro&immutable=1" for path in paths]
        with _reading(self._paths):
            self._db = connect(uris[0], uri=True, isolation_level=None, check_same_thread=False)
            self._db.execute("CREATE TEMP TABLE queries(id INTEGER PRIMARY KEY, query)")
            for number, uri in enumerate(uris[1:], 1):
                self._db.execute(f"ATTACH ? AS shard{number}", (uri,))
        self._schemas = ["main", *(f"shard{number}" for number in range(1, len(paths)))]
        for path, schema in zip(paths, self._schemas):
            with _reading(path):
                if not fetch(self._db, f"SELECT 1 FROM {schema}.sqlite_master WHERE name = ?", (table,)):
                    raise UnreadableError(f"{path}: it has no table {table}")  # a file of 0 bytes is a database

    def answer(self, question: Question) -> Columns:
        """Raises UnreadableError for a damaged file, TimeoutError after interrupt(), the SQLite module's own error for
        what the extension refuses."""
        tables = [f"{schema}.{question.table}" for schema in self._schemas]
        with _reading(self._paths):
            return _OPERATIONS[question.operation](self._db, question, tables)

    def interrupt(self) -> None:
        self._db.interrupt()

    def close(self) -> None:
        self._db.close()


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Tells a file that cannot be read, or a search that was ended, from a question that cannot be answered."""
    try:
        yield
    except Exception as error:
        kind, text = type(error).__name__, str(error)
        if "interrupted" in text:
            raise TimeoutError(f"{path}: the search was ended, since it took too long") from error
        # Both modules have one class for damage, CORRUPT and NOTADB, and another for everything that fails.
        unreadable = kind == "DatabaseError" or "disk I/O error" in text or "unable to open database" in text
        if unreadable:
            raise UnreadableError(f"{path}: {error}") from error
        raise


def _nearest(db: Any, question: Question, tables: Sequence[str]) -> Columns:
    queries = question.queries
    is_sparse = isinstance(queries, CompressedRows)
    given = queries.matrix() if is_sparse else (queries.tobytes(),)
    options = json.dumps({**question.options, "also": tables[1:]} if len(tables) > 1 else question.options)
    [(ids, distances)] = fetch(
        db,
        f"SELECT rowids, distances FROM warp_knn_arrays(?, ?, {'warp_csr(?, ?, ?)' if is_sparse else '?'}, ?, ?)",
        (tables[0], question.column, *given, question.k, options),
    )
    shape = (len(queries), question.k)
    return {"id": np.frombuffer(ids, "i8").reshape(shape), "distance": np.frombuffer(distances, "f8").reshape(shape)}


_QUERIES = "SELECT id, query FROM temp.queries ORDER BY id"


def _joined(
    db: Any, question: Question, tables: Sequence[str], columns: str, call: str, parameters: tuple[Any, ...]
) -> Columns:
    """Returns what a table-valued function that takes a table and `query_sql` gives for all queries, of all tables."""
    with transaction(db):
        db.execute("DELETE FROM temp.queries")
        queries = question.queries
        cells = [bytes(row) for row in queries] if isinstance(queries, np.ndarray) else queries
        cells = queries.cells() if isinstance(queries, CompressedRows) else cells
        db.executemany("INSERT INTO temp.queries VALUES (?, ?)", enumerate(cells))
    names = ["query", *columns.replace("rowid", "id").split(", ")]
    fill = {name: _FILL[name] for name in names[1:]}
    parts = []
    for table in tables:
        rows = rows_with(names, fetch(db, f"SELECT query_id, {columns} FROM {call}", (table, *parameters)))
        part = rows if question.operation == "pairs" else by_query(rows, len(question.queries), question.k, fill)
        if "certified" in part:
            part["certified"] = part["certified"].min(axis=1, initial=1).astype(bool)
        parts.append(part)
    return merge(question, parts)


_FILL = {"id": -1, "distance": np.nan, "matches": 0, "certified": 1}  # where there are fewer than k


def _pairs(db: Any, question: Question, tables: Sequence[str]) -> Columns:
    parameters = (question.column, _QUERIES, question.radius, json.dumps(question.options))
    call = "warp_range_join(?, ?, ?, ?, ?)"
    if question.most is not None:
        call += f" LIMIT {question.most + 1}"  # one more says that there are too many
    return _joined(db, question, tables, "rowid, distance", call, parameters)


def _matches(db: Any, question: Question, tables: Sequence[str]) -> Columns:
    parameters = (_QUERIES, question.k, json.dumps(question.options))
    return _joined(db, question, tables, "rowid, matches", "warp_match_join(?, ?, ?, ?)", parameters)


def _documents(db: Any, question: Question, tables: Sequence[str]) -> Columns:
    parameters = (question.column, _QUERIES, question.k, json.dumps(question.options))
    return _joined(db, question, tables, "rowid, matches", "warp_document_join(?, ?, ?, ?, ?)", parameters)


def _sequences(db: Any, question: Question, tables: Sequence[str]) -> Columns:
    parameters = (question.column, _QUERIES, question.k, question.candidates, json.dumps(question.options))
    columns, call = "rowid, distance, certified", "warp_sequence_join(?, ?, ?, ?, ?, ?)"
    return _joined(db, question, tables, columns, call, parameters)


_OPERATIONS = {
    "nearest": _nearest,
    "pairs": _pairs,
    "matches": _matches,
    "documents": _documents,
    "sequences": _sequences,
}


def merge(question: Question, parts: Sequence[Columns]) -> Columns:
    """Returns the answer of all from the answers of some, which is what one file with all of their rows answers.

    Raises ValueError where it has more rows than it may have.
    """
    if question.operation == "pairs":
        if question.most is not None and sum(len(part["id"]) for part in parts) > question.most:
            raise ValueError(
                f"{question.table}.{question.column}: more than {question.most:,} pairs of a query and a row are "
                f"within the radius of {question.radius:g}; ask with a smaller radius, fewer queries, or a filter"
            )
        return merge_all(parts)
    return merge_best(parts, "matches" if question.operation in ("matches", "documents") else "distance", question.k)
