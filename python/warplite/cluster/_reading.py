"""A shard's file as it is searched: an ordinary SQLite file with the cluster's table, which never changes.

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
from .._vectors import fetch
from ._answers import Columns, by_query, merge_all, merge_best, rows_with
from ._errors import ClusterError


@dataclass(frozen=True)
class Question:
    """What every shard is asked. queries: encoded vectors, uint8 [q, bytes]; texts; or JSON of match counts."""

    operation: str  # a key of _OPERATIONS
    table: str
    column: str
    queries: Any
    k: int = 0
    radius: float = 0.0
    candidates: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


class UnreadableError(ClusterError):
    """A shard's file is missing or damaged, or cannot be read."""


class Reader:
    """A connection to a shard's file, which never changes. Raises UnreadableError where there is none."""

    def __init__(self, path: str) -> None:
        if not os.path.exists(path):
            raise UnreadableError(f"{path}: no such file")
        with _reading(path):
            uri = f"file:{quote(path)}?mode=ro&immutable=1"
            self._db = connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            self._db.execute("CREATE TEMP TABLE queries(id INTEGER PRIMARY KEY, query)")
        self._path = path

    def answer(self, question: Question) -> Columns:
        """Raises UnreadableError for a damaged file, TimeoutError after interrupt(), the SQLite module's own error for
        what the extension refuses."""
        with _reading(self._path):
            return _OPERATIONS[question.operation](self._db, question)

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


def _nearest(db: Any, question: Question) -> Columns:
    blobs, options = question.queries, json.dumps(question.options)
    [(ids, distances)] = fetch(
        db,
        "SELECT rowids, distances FROM warp_knn_arrays(?, ?, ?, ?, ?)",
        (question.table, question.column, blobs.tobytes(), question.k, options),
    )
    shape = (len(blobs), question.k)
    return {"id": np.frombuffer(ids, "i8").reshape(shape), "distance": np.frombuffer(distances, "f8").reshape(shape)}


_QUERIES = "SELECT id, query FROM temp.queries ORDER BY id"


def _joined(db: Any, question: Question, columns: str, call: str, parameters: tuple[Any, ...]) -> Columns:
    """Returns what a table-valued function that takes `query_sql` gives for all queries."""
    with transaction(db):
        db.execute("DELETE FROM temp.queries")
        queries = question.queries
        cells = [bytes(row) for row in queries] if isinstance(queries, np.ndarray) else queries
        db.executemany("INSERT INTO temp.queries VALUES (?, ?)", enumerate(cells))
    rows = fetch(db, f"SELECT query_id, {columns} FROM {call}", parameters)
    names = ["query", *columns.replace("rowid", "id").split(", ")]
    return rows_with(names, rows)


def _pairs(db: Any, question: Question) -> Columns:
    parameters = (question.table, question.column, _QUERIES, question.radius, json.dumps(question.options))
    return _joined(db, question, "rowid, distance", "warp_range_join(?, ?, ?, ?, ?)", parameters)


def _matches(db: Any, question: Question) -> Columns:
    parameters = (question.table, _QUERIES, question.k, json.dumps(question.options))
    rows = _joined(db, question, "rowid, matches", "warp_match_join(?, ?, ?, ?)", parameters)
    return by_query(rows, len(question.queries), question.k, {"id": -1, "matches": 0})


def _documents(db: Any, question: Question) -> Columns:
    parameters = (question.table, question.column, _QUERIES, question.k, json.dumps(question.options))
    rows = _joined(db, question, "rowid, matches", "warp_document_join(?, ?, ?, ?, ?)", parameters)
    return by_query(rows, len(question.queries), question.k, {"id": -1, "matches": 0})


def _sequences(db: Any, question: Question) -> Columns:
    options = json.dumps(question.options)
    parameters = (question.table, question.column, _QUERIES, question.k, question.candidates, options)
    rows = _joined(db, question, "rowid, distance, certified", "warp_sequence_join(?, ?, ?, ?, ?, ?)", parameters)
    found = by_query(rows, len(question.queries), question.k, {"id": -1, "distance": np.nan, "certified": 1})
    found["certified"] = found["certified"].min(axis=1, initial=1).astype(bool)
    return found


_OPERATIONS = {
    "nearest": _nearest,
    "pairs": _pairs,
    "matches": _matches,
    "documents": _documents,
    "sequences": _sequences,
}


def merge(question: Question, parts: Sequence[Columns]) -> Columns:
    """Returns the answer of all from the answers of some, which is what one file with all of their rows answers."""
    if question.operation == "pairs":
        return merge_all(parts)
    return merge_best(parts, "matches" if question.operation in ("matches", "documents") else "distance", question.k)
