"""What a cluster raises."""

from __future__ import annotations

from numbers import Integral
from typing import Any


class ClusterError(RuntimeError):
    """A cluster cannot be opened or written as asked."""


class ShardError(ClusterError):
    """Shards did not answer, after they and their replicas were asked again."""


class TimedOutError(ShardError):
    """A search was not over when its time was."""


class OverloadedError(ClusterError):
    """More batches wait than were allowed to."""


def at_least(least: int, **given: Any) -> None:
    """Raises ValueError, which names it, for what is no integer, or less."""
    for name, value in given.items():
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}: expected an integer, {least} or more, got {value!r}")
