"""SQLAlchemy: every connection of an engine has the extension.

    engine = create_engine("sqlite:///papers.db")
    warplite.sqlalchemy.load_into(engine)

or, where only a URL can be given, `create_engine("sqlite:///papers.db", plugins=["warplite"])` and
`sqlite:///papers.db?plugin=warplite`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, event
from sqlalchemy.engine import CreateEnginePlugin

from ._loading import load, load_async


def load_into(engine: Any) -> None:
    """Loads the extension into each connection that the engine opens from now on; also of an AsyncEngine."""
    event.listen(getattr(engine, "sync_engine", engine), "connect", _connected)


def _connected(connection: Any, _record: Any) -> None:
    if hasattr(connection, "run_async"):  # aiosqlite's, whose thread owns the connection
        connection.run_async(load_async)
    else:
        load(connection)


class Plugin(CreateEnginePlugin):
    """What `plugins=["warplite"]` means."""

    def update_url(self, url: URL) -> URL:
        return url

    def engine_created(self, engine: Engine) -> None:
        load_into(engine)
