"""The app, which has no models: it listens to connections that are made."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from .._loading import load


def _connected(connection: Any, **_: Any) -> None:
    if connection.vendor == "sqlite":
        load(connection.connection)


class WarpliteConfig(AppConfig):
    """Loads the extension into SQLite connections, of every alias."""

    name = "warplite.django"
    label = "warplite"

    def ready(self) -> None:
        connection_created.connect(_connected, dispatch_uid="warplite")
