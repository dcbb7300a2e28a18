"""sqlite-utils: every database that it opens has the extension."""

from __future__ import annotations

from typing import Any

from sqlite_utils import hookimpl

from ._plugins import load_or_warn


@hookimpl
def prepare_connection(conn: Any) -> None:
    """Loads the extension."""
    load_or_warn(conn)
