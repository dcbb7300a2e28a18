"""The app, which has no models: it listens to connections that are made, and helps with what they write."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.apps import AppConfig
from django.db import NotSupportedError
from django.db.backends.signals import connection_created
from django.db.backends.sqlite3.base import DatabaseWrapper

from .._loading import load


def _connected(connection: Any, **_: Any) -> None:
    if connection.vendor == "sqlite":
        load(connection.connection)


def _names(connection: Any, sql: str, *parameters: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [name for (name,) in cursor.fetchall()]


_VIRTUAL = "SELECT name FROM sqlite_master WHERE lower(name) = lower(%s) AND sql LIKE 'CREATE VIRTUAL TABLE%%'"
_INDEXES = """
    SELECT v.name FROM sqlite_master t JOIN sqlite_master v ON t.name = v.name || '_content_insert'
    WHERE t.type = 'trigger' AND lower(t.tbl_name) = lower(%s) AND v.sql LIKE 'CREATE VIRTUAL TABLE%%'
"""


def _keeping_indexes(remake_table: Any) -> Any:
    """Django alters a table by making another one in its place: an ordinary one, without triggers."""

    @wraps(remake_table)
    def remake(editor: Any, model: Any, *arguments: Any, **options: Any) -> Any:
        connection, table = editor.connection, model._meta.db_table
        if _names(connection, _VIRTUAL, table):
            raise NotSupportedError(f"{table} is a virtual table, which cannot be altered: create another one and copy")
        indexes = [connection.ops.quote_name(name) for name in _names(connection, _INDEXES, table)]
        remake_table(editor, model, *arguments, **options)
        for index in indexes:
            editor.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")

    return remake


class WarpliteConfig(AppConfig):
    """Loads the extension into SQLite connections, of every alias."""

    name = "warplite.django"
    label = "warplite"

    def ready(self) -> None:
        connection_created.connect(_connected, dispatch_uid="warplite")
        DatabaseWrapper.ops_class.compiler_module = "warplite.django.compiler"
        editor = DatabaseWrapper.SchemaEditorClass
        if not hasattr(editor._remake_table, "__wrapped__"):
            editor._remake_table = _keeping_indexes(editor._remake_table)
