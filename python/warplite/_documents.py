"""Documents with vectors in one warp table: what the stores for LangChain and LlamaIndex have in common."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Sequence
from typing import Any

from ._conditions import Column, Condition, compare, kind_of, listed_texts, one_of, plain_value, prepare
from ._loading import connect, load
from ._rows import writing
from ._search import whole
from ._vectors import (
    as_array,
    declaration,
    encode,
    fetch,
    module_of,
    quoted,
    quoted_table,
    table_columns,
    vector_columns,
)

_OWN = ("id", "embedding", "content", "metadata")
_DISTANCE = r"\bembedding\b\W*\w+\s*\[[^]]*\](?:[^,()]|\([^)]*\))*?\bdistance(?:_metric)?\s*=\s*(\w+)"


class DocumentTable:
    """A warp table of documents: id (a unique text), embedding, content, metadata (JSON) and filter columns.

    The table is made with the first documents, whose vectors say how long vectors are. `columns` maps keys of the
    metadata to SQL types: these become columns of their own, by which a search filters before it chooses; filters by
    other keys are evaluated by SQLite on what the search finds, until enough rows have passed. Of a table that is
    there, `distance` and `columns` are what it has.
    Threads: calls may come from any thread, and wait for one another. That of a given connection must allow it.

    Each call raises ValueError where the table is no table of documents, has another distance than was given, or has
    not the given columns.
    """

    def __init__(
        self, database: Any, table: str, distance: str | None, index: str | None, columns: dict[str, str] | None
    ) -> None:
        if isinstance(database, str) or hasattr(database, "__fspath__"):
            self.connection = _connect_for_threads(database)
        else:
            self.connection = database
            load(database)
        prepare(self.connection)
        self.table, self.name = table, quoted_table(self.connection, table)
        self.distance, self.index, self.columns = distance or "cosine", index, dict(columns or {})
        self._given = distance, self.columns
        self._declaration: str | None = None  # whose columns these are
        self._lock = threading.RLock()
        with self._lock:
            self.exists()

    def add(
        self, ids: Sequence[str], vectors: Any, contents: Sequence[str | None], metadatas: Sequence[dict[str, Any]]
    ) -> None:
        """Inserts documents, or replaces those of the same id, in one transaction.

        Raises what storable() raises, and ValueError for lists of different lengths and for ids that are no texts.
        """
        ids, array = listed_texts(ids), as_array(vectors, f"{self.table}.embedding")
        if not len(ids) == len(array) == len(contents) == len(metadatas):
            given = f"{len(ids)} ids, {len(array)} embeddings, {len(contents)} contents and {len(metadatas)} metadatas"
            raise ValueError(f"as many of each were expected, got {given}")
        if not ids:
            return
        stored = [storable(metadata, id_) for id_, metadata in zip(ids, metadatas)]
        with self._lock, writing(self.connection):
            if not self.exists():
                self._create(array.shape[-1])
            blobs = encode(array, vector_columns(self.connection, self.table)["embedding"], f"{self.table}.embedding")
            names = ["id", "embedding", "content", "metadata", *self.columns]
            places = ", ".join("?" * len(names))
            sql = f"INSERT OR REPLACE INTO {self.name}({', '.join(map(quoted, names))}) VALUES ({places})"
            rows = (
                (id_, blob, content, json.dumps(metadata), *self._cells(metadata, id_))
                for id_, blob, content, metadata in zip(ids, blobs, contents, stored)
            )
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
        with self._lock, writing(self.connection):
            if self.exists():
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
        type_ = self.columns.get(key)
        return compare(key, operator, value, Column(self._column(key), kind_of(type_)) if type_ else None)

    def among(self, ids: Sequence[str], column: str = "id") -> Condition:
        """Returns that a column is one of some texts. Raises ValueError for what is no list of texts."""
        return one_of(self._column(column), [], listed_texts(ids))

    def exists(self) -> bool:
        """Whether there has been a document."""
        sql = declaration(self.connection, self.table)
        if sql not in (None, self._declaration):
            self._adopt(sql)
        self._declaration = sql
        return sql is not None

    def drop(self) -> None:
        """Drops the table with all documents."""
        with self._lock:
            if self.exists():  # no savepoint: SQLite drops no table in one whose rows are not committed
                self.connection.execute(f"DROP TABLE {self.name}")

    def _cells(self, metadata: dict[str, Any], id_: str) -> list[Any]:
        """Returns the values of the columns. Raises ValueError, which names document and key, for a list or a dict."""
        for key in self.columns:
            if isinstance(metadata.get(key), (list, dict)):
                where = f"document {id_!r}: metadata[{key!r}]"
                raise ValueError(f"{where}: a number or a text was expected, as of every column, got {metadata[key]!r}")
        return [metadata.get(key) for key in self.columns]

    def _column(self, name: str) -> str:
        """Returns a column in SQL: without its table, SQLite would take one that there is not for a text."""
        return f"{self.name}.{quoted(name)}"

    def _adopt(self, sql: str) -> None:
        """Takes distance and columns from the CREATE statement of a table that is there."""
        columns = table_columns(self.connection, self.table)
        is_ours = module_of(sql) == "warp" and columns.keys() >= set(_OWN)
        if not is_ours or "embedding" not in vector_columns(self.connection, self.table):
            raise ValueError(f"{self.table}: a warp table with the columns {', '.join(_OWN)} was expected, got {sql}")
        named = re.search(_DISTANCE, sql, re.IGNORECASE)
        distance = named[1].lower() if named else "l2"
        columns = {name: type_ for name, type_ in columns.items() if name not in _OWN}
        given_distance, given = self._given
        differs = [f"no column {name}" for name in given if name not in columns]
        differs += [
            f"{name} {columns[name]}, not {type_}"
            for name, type_ in given.items()
            if name in columns and kind_of(type_) != kind_of(columns[name])
        ]
        if given_distance not in (None, distance):
            differs.append(f"distance={distance}, not {given_distance}")
        if differs:
            raise ValueError(f"{self.table} is there already, and has {'; '.join(differs)}")
        self.distance, self.columns = distance, columns

    def _create(self, dim: int) -> None:
        options = f"distance={self.distance}" + (f" index={self.index}" if self.index else "")
        filters = "".join(f", {quoted(key)} {type_}" for key, type_ in self.columns.items())
        self.connection.execute(
            f"CREATE VIRTUAL TABLE {self.name} USING warp("
            f"id TEXT PRIMARY KEY, embedding FLOAT[{dim}] {options}, +content TEXT, +metadata TEXT{filters})"
        )


def storable(metadata: dict[str, Any], id_: str, *, others: bool = False) -> dict[str, Any]:
    """Returns metadata as JSON takes it: ISO texts for dates, None for NaN and for whatever pandas writes for missing.

    Raises ValueError, which names document and key, for an infinity and, unless `others` are let through, for what JSON
    has not.
    """
    return _storable(metadata, f"document {id_!r}: metadata", others)  # type: ignore[no-any-return]


def _storable(value: Any, where: str, others: bool) -> Any:
    value = plain_value(value)
    if isinstance(value, dict):
        wrong = [key for key in value if key is not None and not isinstance(key, (str, int, float))]
        if wrong and not others:
            raise ValueError(f"{where}: keys are texts, got {wrong[0]!r}")
        return {key: _storable(inner, f"{where}[{key!r}]", others) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(inner, f"{where}[{i}]", others) for i, inner in enumerate(value)]
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"{where}: a finite number was expected, got {value}")
    if not (others or value is None or isinstance(value, (str, int, float))):
        raise ValueError(f"{where}: a number, a text, a date, a list or a dict was expected, got {value!r}")
    return value


def _connect_for_threads(database: Any) -> Any:
    """Opens a database by whichever module loads the extension, for use in several threads, one at a time."""
    from ._loading import LoadingNotSupportedError

    for module in ("sqlite3", "pysqlite3"):
        try:
            return connect(database, module=module, check_same_thread=False)
        except (ImportError, LoadingNotSupportedError):
            continue
    return connect(database)  # apsw's connections may go from thread to thread; what else, says which can
