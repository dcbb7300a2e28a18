"""SQLAlchemy: every connection of an engine has the extension, and the ORM writes to its tables.

    engine = create_engine("sqlite:///papers.db")
    warplite.sqlalchemy.load_into(engine)

or, where only a URL can be given, `create_engine("sqlite:///papers.db", plugins=["warplite"])` and
`sqlite:///papers.db?plugin=warplite`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Engine, Table, event, inspect
from sqlalchemy.engine import CreateEnginePlugin
from sqlalchemy.orm import Mapper, ORMExecuteState, Session

from ._loading import load, load_async

_dialects: WeakSet[Any] = WeakSet()  # of engines that load the extension


def load_into(engine: Any) -> None:
    """Loads the extension into each connection that the engine opens from now on; also of an AsyncEngine."""
    engine = getattr(engine, "sync_engine", engine)
    event.listen(engine, "connect", _connected)
    _dialects.add(engine.dialect)


def _connected(connection: Any, _record: Any) -> None:
    if hasattr(connection, "run_async"):  # aiosqlite's, whose thread owns the connection
        connection.run_async(load_async)
    else:
        load(connection)


class Awaited:
    """aiosqlite's connection as search() and add() call one, in run_sync() of an AsyncConnection or AsyncSession."""

    def __init__(self, adapted: Any) -> None:
        self._adapted = adapted
        self._rows: Any = []

    @property
    def in_transaction(self) -> bool:
        return self._adapted.driver_connection.in_transaction  # type: ignore[no-any-return]

    def cursor(self) -> Awaited:
        return Awaited(self._adapted)

    def execute(self, sql: str, parameters: Any = ()) -> Awaited:
        async def rows(driver: Any) -> Any:
            async with driver.execute(sql, parameters) as cursor:
                return await cursor.fetchall()

        self._rows = self._adapted.run_async(rows)
        return self

    def fetchall(self) -> Any:
        return self._rows

    def executemany(self, sql: str, rows: Iterable[Any]) -> None:
        cells = list(rows)  # here, and not in aiosqlite's thread
        self._adapted.run_async(lambda driver: driver.executemany(sql, cells))

    def enable_load_extension(self, enabled: bool) -> None:
        self._adapted.run_async(lambda driver: driver.enable_load_extension(enabled))

    def load_extension(self, path: str) -> None:
        self._adapted.run_async(lambda driver: driver.load_extension(path))


@event.listens_for(Session, "before_flush")
def _flushes(session: Session, _context: Any, _instances: Any) -> None:
    _return_nothing(session, {inspect(instance).mapper for instance in [*session.new, *session.dirty]})


@event.listens_for(Session, "do_orm_execute")
def _executes(state: ORMExecuteState) -> None:
    if state.bind_mapper is not None and (state.is_insert or state.is_update or state.is_delete):
        _return_nothing(state.session, [state.bind_mapper])


def _return_nothing(session: Session, mappers: Iterable[Mapper[Any]]) -> None:
    """Makes the ORM ask for new keys in the way that works for virtual tables.

    SQLite has no RETURNING for their UPDATE and DELETE, and that of INSERT comes before their keys.
    """
    for mapper in mappers:
        if session.get_bind(mapper).dialect not in _dialects:
            continue
        for table in mapper.tables:
            if isinstance(table, Table) and table.implicit_returning and _is_virtual(session, mapper, table):
                table.implicit_returning = False


def _is_virtual(session: Session, mapper: Mapper[Any], table: Table) -> bool:
    connection = session.connection(bind_arguments={"mapper": mapper})
    schema = connection.dialect.identifier_preparer.quote(table.schema or "main")
    sql = " UNION ALL ".join(
        f"SELECT 1 FROM {of}.sqlite_master WHERE name = ?1 COLLATE NOCASE AND sql LIKE 'CREATE VIRTUAL TABLE%'"
        for of in (schema, "temp")
    )
    return connection.exec_driver_sql(sql, (table.name,)).first() is not None


class Plugin(CreateEnginePlugin):
    """What `plugins=["warplite"]` means."""

    def update_url(self, url: URL) -> URL:
        return url

    def engine_created(self, engine: Engine) -> None:
        load_into(engine)
