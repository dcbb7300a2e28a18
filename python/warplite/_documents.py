"""Documents with vectors in one warp table: what the stores for LangChain and LlamaIndex have in common."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from typing import Any

from ._conditions import Condition, compare, prepare
from ._loading import connect, load
from ._rows import writing
from ._search import whole
from ._vectors import as_array, encode, fetch, plain, quoted, quoted_table, vector_columns


class DocumentTable:
    """A warp table of documents: id (a unique text), embedding, content, metadata (JSON) and filter columns.

    The table is made with the first documents, whose vectors say how long vectors are. `columns` maps keys of the
    metadata to SQL types: these become columns of their own, by which a search filters before it chooses; filters by
    other keys are evaluated by SQLite on what the search finds, until enough rows have passed.
    Threads: calls may come from any thread, and wait for one another. That of a given connection must allow it.
    """

    def __init__(
        self, database: Any, table: str, distance: str, index: str | None, columns: dict[str, str] | None
    ) -> None:
        if isinstance(database, str) or hasattr(database, "__fspath__"):
            self.connection = _connect_for_threads(database)
        else:
            self.connection = database
            load(database)
        prepare(self.connection)
        self.table, self.name = table, quoted_table(self.connection, table)
        self.options = f"distance={distance}" + (f" index={index}" if index else "")
        self.columns = columns or {}
        self.distance = distance
        self._lock = threading.RLock()

    def add(
        self, ids: Sequence[str], vectors: Any, contents: Sequence[str | None], metadatas: Sequence[dict[str, Any]]
    ) -> None:
        """Inserts documents, or replaces those of the same id, in one transaction.

        Raises what storable() raises.
        """
        if len(ids) == 0:
            return
        stored = [storable(metadata, id_) for id_, metadata in zip(ids, metadatas)]
        array = as_array(vectors)
        with self._lock:
            if not self.exists():
                self._create(array.shape[1])
            blobs = encode(array, vector_columns(self.connection, self.table)["embedding"], f"{self.table}.embedding")
            names = ["id", "embedding", "content", "metadata", *self.columns]
            places = ", ".join("?" * len(names))
            sql = f"INSERT OR REPLACE INTO {self.name}({', '.join(map(quoted, names))}) VALUES ({places})"
            rows = (
                (id_, blob, content, json.dumps(metadata), *map(metadata.get, self.columns))
                for id_, blob, content, metadata in zip(ids, blobs, contents, stored)
            )
            with writing(self.connection):
                self.connection.executemany(sql, rows)

    def select(self, condition: Condition) -> list[tuple[str, str | None, dict[str, Any]]]:
        """Returns (id, content, metadata) of the documents that fulfil a condition."""
        sql, values = condition
        with self._lock:
            if not self.exists():
                return []
            rows = fetch(self.connection, f"SELECT id, content, metadata FROM {self.name} WHERE {sql}", values)
        return [(id_, content, json.loads(metadata)) for id_, content, metadata in rows]

    def delete(self, condition: Condition) -> None:
        """Deletes the documents that fulfil a condition."""
        sql, values = condition
        with self._lock:
            if self.exists():
                with writing(self.connection):
                    self.connection.execute(f"DELETE FROM {self.name} WHERE {sql}", values)

    def search(
        self, vector: Sequence[float], k: int, condition: Condition = ("1", [])
    ) -> list[tuple[str, str | None, dict[str, Any], float, bytes]]:
        """Returns (id, content, metadata, distance, embedding) of the k nearest that fulfil the condition."""
        import numpy as np

        sql, values = condition
        with self._lock:
            if not self.exists():
                return []
            rows = fetch(
                self.connection,
                f"SELECT id, content, metadata, distance, embedding FROM {self.name} "
                f"WHERE embedding MATCH ? AND {sql} ORDER BY distance LIMIT ?",
                [np.asarray(vector, "<f4").tobytes(), *values, whole(k)],
            )
        return [(id_, content, json.loads(metadata), *rest) for id_, content, metadata, *rest in rows]

    def compare(self, key: str, operator: str, value: Any) -> Condition:
        """Returns the condition that compares a key of the metadata with a value. Raises what compare() raises."""
        return compare(key, operator, value, is_column=key in self.columns)

    def exists(self) -> bool:
        """Whether there has been a document."""
        schema, _, name = self.table.rpartition(".")
        master = f"{quoted(schema)}.sqlite_master" if schema else "sqlite_master"
        sql = f"SELECT 1 FROM {master} WHERE type = 'table' AND name = ? COLLATE NOCASE"
        return bool(fetch(self.connection, sql, [name]))

    def drop(self) -> None:
        """Drops the table with all documents."""
        with self._lock:
            self.connection.execute(f"DROP TABLE IF EXISTS {self.name}")

    def _create(self, dim: int) -> None:
        filters = "".join(f", {quoted(key)} {type_}" for key, type_ in self.columns.items())
        self.connection.execute(
            f"CREATE VIRTUAL TABLE {self.name} USING warp("
            f"id TEXT PRIMARY KEY, embedding FLOAT[{dim}] {self.options}, +content TEXT, +metadata TEXT{filters})"
        )


def storable(metadata: dict[str, Any], id_: str) -> dict[str, Any]:
    """Returns metadata as JSON takes it: None for NaN, and for what else pandas writes where a value is missing.

    Raises ValueError, which names document and key, for an infinity.
    """
    return {key: _storable(value, f"document {id_!r}: metadata[{key!r}]") for key, value in metadata.items()}


def _storable(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return {key: _storable(inner, f"{where}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(inner, f"{where}[{i}]") for i, inner in enumerate(value)]
    value = plain(value)
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isinf(value):
        raise ValueError(f"{where}: a finite number was expected, got {value}")
    return None


def _connect_for_threads(database: Any) -> Any:
    """Opens a database by whichever module loads the extension, for use in several threads, one at a time."""
    from ._loading import LoadingNotSupportedError

    for module in ("sqlite3", "pysqlite3"):
        try:
            return connect(database, module=module, check_same_thread=False)
        except (ImportError, LoadingNotSupportedError):
            continue
    return connect(database)  # apsw's connections may go from thread to thread; what else, says which can
