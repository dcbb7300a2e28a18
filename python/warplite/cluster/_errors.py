"""What a cluster raises."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """A cluster cannot be opened or written as asked."""


class ShardError(ClusterError):
    """Shards did not answer, after they and their replicas were asked again."""


class OverloadedError(ClusterError):
    """More batches wait than were allowed to."""
