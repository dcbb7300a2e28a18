"""Django's compilers of SQL, of which the one for INSERT knows the keys that virtual tables give to rows."""

from __future__ import annotations

from typing import Any

from django.db.models.sql import compiler
from django.db.models.sql.compiler import *  # noqa: F403  # the others, as Django looks them up here


class SQLInsertCompiler(compiler.SQLInsertCompiler):
    """Fills in the keys that SQLite's RETURNING leaves NULL, because it runs before a virtual table has chosen them."""

    def execute_sql(self, returning_fields: Any = None) -> list[Any]:
        rows = list(super().execute_sql(returning_fields))
        key = self.query.get_meta().pk
        if key not in (returning_fields or ()):
            return rows
        place = list(returning_fields).index(key)
        if any(row[place] is not None for row in rows):
            return rows
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT last_insert_rowid()")
            (last,) = cursor.fetchone()
        first = last - len(rows) + 1  # rows of one statement are numbered one after another
        return [(*row[:place], first + i, *row[place + 1 :]) for i, row in enumerate(rows)]
