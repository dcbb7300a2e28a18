"""Datasette: every connection has the extension, locked, since visitors type SQL."""

from __future__ import annotations

from typing import Any

from datasette import hookimpl

from ._plugins import load_or_warn


@hookimpl
def prepare_connection(conn: Any) -> None:
    """Loads the extension; forbids files of the server's and changes of settings, until the process ends."""
    if load_or_warn(conn):
        conn.execute("SELECT warp_config('external_access', 0), warp_config('lock_configuration', 1)").fetchone()
