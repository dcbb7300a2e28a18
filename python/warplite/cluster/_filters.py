"""Filters that mean in each shard what they mean in one file with all of the rows."""

from __future__ import annotations

import threading
from typing import Any

from .._loading import connect
from .._vectors import quoted
from ._table import Table

_READ, _SELECT = 20, 21  # what SQLite tells an authorizer


class FilterCheck:
    """Has SQLite read filters, over an empty table with the cluster's columns. Threads: any."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._db: Any = None

    def close(self) -> None:
        """Closes what the next check opens again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def check(self, expression: str) -> None:
        """Raises ValueError for what is no expression over the columns, and for a sub-query.

        A shard's sub-query would see the rows of that shard alone.
        """
        if not isinstance(expression, str):
            raise ValueError(f"filter: expected an SQL expression, got {expression!r}")
        selects, tables = [], set()

        def note(action: int, first: str | None, *_: Any) -> int:
            if action == _SELECT:
                selects.append(action)
            elif action == _READ:
                tables.add(first)
            return 0

        name = self._table.name
        failed: Exception | None = None
        with self._lock:
            if self._db is None:
                self._db = connect(":memory:", check_same_thread=False)
                self._db.execute(f"CREATE TABLE {quoted(name)}({', '.join(map(quoted, self._table.names))})")
            self._db.set_authorizer(note)
            try:
                self._db.execute(f"EXPLAIN SELECT rowid FROM {quoted(name)} WHERE ({expression}\n)").close()
            except Exception as error:
                failed = error
        if len(selects) > 1 or tables - {name}:
            raise ValueError(
                f"filter: {expression!r} has a sub-query, which would see the rows of one shard and not of the "
                f"cluster; ask for its result first, and write that"
            )
        if failed is not None:
            raise ValueError(f"filter: {expression!r}: {failed}") from failed
