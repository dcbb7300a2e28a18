"""Connections that have the extension."""

from __future__ import annotations

import os
import sys

from ._library import announce_cuda_plugin, loadable_path

TYPE_CHECKING = False  # importing typing takes longer than all of this package
if TYPE_CHECKING:
    from typing import Any

MODULES = ("sqlite3", "pysqlite3", "apsw")


class LoadingNotSupportedError(RuntimeError):
    """The SQLite module was built without the loading of extensions."""


def not_supported(what: str) -> LoadingNotSupportedError:
    """Returns the error, which names the ways out."""
    return LoadingNotSupportedError(
        f"{what} of this Python ({sys.version.split()[0]}, {sys.executable}) was built without the loading of "
        "extensions. Ways out: pip install pysqlite3-binary and use pysqlite3 as sqlite3 (Linux); pip install "
        "apsw; or a Python built with --enable-loadable-sqlite-extensions, such as Debian's, Homebrew's, "
        "conda's and uv's. warplite.connect(path) takes whichever module can."
    )


def driver_connection(connection: Any) -> Any:
    """Returns the SQLite module's own connection: `connection`, or the one that it holds.

    SQLAlchemy's and Django's connections, SQLAlchemy's sessions and sqlite-utils' databases hold one.
    """
    if hasattr(connection, "ensure_connection"):  # Django connects late
        connection.ensure_connection()
    for name in ("driver_connection", "connection", "conn"):
        inner: Any = getattr(connection, name, None)
        if hasattr(inner, "__func__"):  # a Session's is a method
            inner = inner()
        if _is_asynchronous(inner) and hasattr(connection, "dbapi_connection"):
            from .sqlalchemy import Awaited  # which holds aiosqlite's

            return Awaited(connection.dbapi_connection)
        if inner is not None:
            return driver_connection(inner)
    return connection


def _is_asynchronous(connection: Any) -> bool:
    apsws = getattr(connection, "is_async", None)  # it has one class for both
    return hasattr(connection, "__aenter__") and not hasattr(connection, "__enter__") if apsws is None else bool(apsws)


def open_connection(connection: Any) -> Any:
    """Returns what driver_connection() does. Raises TypeError for an asynchronous one, and for a path or an engine."""
    inner = connection if _is_asynchronous(connection) else driver_connection(connection)
    if _is_asynchronous(inner):
        raise TypeError(
            "an asynchronous connection: await warplite.load_async(connection) loads the extension into aiosqlite's, "
            "which SQL searches (warp_knn_arrays); SQLAlchemy's is searched in await connection.run_sync(…)"
        )
    if not hasattr(inner, "execute") or not hasattr(inner, "cursor"):
        raise TypeError(f"an open connection was expected, as warplite.connect() returns it, got {connection!r:.80}")
    return inner


def load(connection: Any) -> None:
    """Loads the extension into an open connection, and leaves the loading of extensions switched off.

    `connection` is one of sqlite3, pysqlite3 or apsw, or an object of SQLAlchemy, Django or sqlite-utils that
    holds one. Loading twice does no harm. Raises LoadingNotSupportedError where the module cannot load
    extensions, LibraryNotFoundError where there is no library, TypeError for what is no such connection, and the
    module's own error where SQLite refuses it.
    """
    connection = open_connection(connection)
    if not hasattr(connection, "enable_load_extension"):
        raise not_supported(f"The module {type(connection).__module__}")
    path = loadable_path()
    announce_cuda_plugin()
    connection.enable_load_extension(True)
    try:
        connection.load_extension(path)
    finally:
        connection.enable_load_extension(False)


async def load_async(connection: Any) -> None:
    """Loads the extension into an open connection of aiosqlite. Raises what load() raises."""
    path = loadable_path()
    announce_cuda_plugin()
    try:
        await connection.enable_load_extension(True)
    except AttributeError:
        raise not_supported("The module sqlite3") from None
    try:
        await connection.load_extension(path)
    finally:
        await connection.enable_load_extension(False)


def connect(database: str | os.PathLike[str], *, module: str | None = None, **options: Any) -> Any:
    """Opens a database with the extension, by whichever module can load it: sqlite3, pysqlite3 or apsw.

    `module` names the one to use instead. `options` go to its connect() (of apsw: to Connection()). The
    connection is that module's: apsw's has no commit() and no rollback(), and waits 5 seconds for other writers, as the
    others do. Raises what load() raises.
    """
    from importlib import import_module

    for name in (module,) if module else MODULES:
        try:
            driver = import_module(name)
        except ImportError:
            if module:
                raise
            continue
        if not hasattr(driver.Connection, "enable_load_extension"):
            continue
        open_database = driver.Connection if name == "apsw" else driver.connect
        connection = open_database(os.fspath(database), **options)
        if name == "apsw":
            connection.set_busy_timeout(5000)  # as the others have it
        try:
            load(connection)
        except BaseException:
            connection.close()
            raise
        return connection
    raise not_supported(f"The module {module or 'sqlite3'}")
