"""warplite info, warplite doctor: what is there, and what works."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from typing import Any

import click

from .._library import LibraryNotFoundError, cuda_plugin_path, loadable_path
from .._loading import MODULES, LoadingNotSupportedError, connect, not_supported
from .._vectors import quoted, table_columns, vector_columns
from . import main, open_database, print_table, warp_tables


@main.command()
@click.argument("database", required=False)
def info(database: str | None) -> None:
    """The version; with DATABASE, its warp and vec0 tables."""
    if database is None:
        db = connect(":memory:")
        click.echo(f"warplite {db.execute('SELECT warp_version()').fetchone()[0]}, {loadable_path()}")
        return
    db = open_database(database)
    tables = [_table_row(db, name) for name in warp_tables(db, database)]
    print_table(["table", "rows", "vectors", "other columns"], tables)


def _table_row(db: Any, table: str) -> list[str]:
    try:
        rows = str(db.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])
        columns = list(table_columns(db, f"main.{table}"))
    except Exception as error:  # sqlite-vec's table, which is to be converted; a damaged one
        click.echo(error, err=True)
        rows, columns = "?", []
    vectors = vector_columns(db, f"main.{table}")
    others = [name for name in columns if name.lower() not in vectors]
    described = [f"{name} {type_.kind}[{type_.dim}]" for name, type_ in vectors.items()]
    return [table, rows, ", ".join(described), ", ".join(others)]


@main.command()
def doctor() -> None:
    """What is loaded, which SQLite modules can load it, and what computes.

    Exits with 1 where no module can load the extension.
    """
    click.echo(f"Python     {platform.python_version()}, {sys.executable}, {platform.platform()}")
    try:
        path = loadable_path()
    except LibraryNotFoundError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"library    {path} ({os.path.getsize(path) / 1e6:.1f} MB)")
    reports = {name: _report_module(name) for name in MODULES}
    working = [name for name, loads in reports.items() if loads]
    if not working:
        refused = any(loads is False for loads in reports.values())
        raise click.ClickException(f"{path} cannot be loaded") if refused else not_supported("Every SQLite module")
    db = connect(":memory:", module=working[0])
    plugin = cuda_plugin_path()
    hint = "" if os.path.exists(plugin) else ": not there; pip install 'warplite[cuda]' brings it, for NVIDIA GPUs"
    click.echo(f"plug-in    {plugin}{hint}")
    try:  # waits until GPUs have started, or have failed to
        db.execute("SELECT warp_config('device', 'gpu')").fetchall()
    except Exception:  # noqa: S110  (the devices say why)
        pass
    for name, description, state in db.execute("SELECT name, description, state FROM warp_devices()"):
        click.echo(f"{name:10} {description + ': ' if description else ''}{state}")
    threads, memory = db.execute("SELECT warp_config('threads'), warp_config('cpu_memory_limit')").fetchone()
    click.echo(f"settings   {threads} threads, {memory / 2**30:.1f} GB for tables in memory")


def _report_module(name: str) -> bool | None:
    """Prints whether a SQLite module loads the library, and returns it; None where it loads none."""
    try:
        module: Any = import_module(name)
    except ImportError:
        click.echo(f"{name:10} not installed")
        return None
    version = module.sqlite_lib_version() if name == "apsw" else module.sqlite_version
    try:
        loaded = connect(":memory:", module=name).execute("SELECT warp_version()").fetchone()[0]
    except LoadingNotSupportedError:
        click.echo(f"{name:10} SQLite {version}: built without the loading of extensions")
        return None
    except Exception as error:  # whatever SQLite says of a library that it does not load
        click.echo(f"{name:10} SQLite {version}: {_loaders_reason() or error}")
        return False
    click.echo(f"{name:10} SQLite {version}: loads warplite {loaded}")
    return True


def _loaders_reason() -> str:
    """Returns why the system does not load the library: SQLite tells of a last attempt, under another name."""
    import ctypes

    try:
        ctypes.CDLL(loadable_path())
    except OSError as error:
        return str(error)
    return ""
