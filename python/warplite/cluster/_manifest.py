"""manifest.json: what a cluster consists of, at one generation.

It is written beside and renamed into place, last of all. Files it names are relative to the cluster's folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ._errors import ClusterError

FORMAT = 1
NAME = "manifest.json"
KEEP_SECONDS = 600.0
_OF_A_SHARD = re.compile(r"\d{4,}-\d+\.db(\.\w+\.part)?(-journal|-wal|-shm)?")  # and what writers that died leave


def file_name(number: int, generation: int) -> str:
    """Returns the name of a shard's file."""
    return f"shards/{number:04d}-{generation}.db"


@dataclass(frozen=True)
class Shard:
    """One file. `low` and `high` bound its ids; both are 0 without rows. `deleted`: rows deleted since compaction."""

    number: int
    file: str
    rows: int = 0
    low: int = 0
    high: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Manifest:
    """The whole cluster.

    models: by vector column, the file that has what its index learnt. centroids: the column whose nearest centroid
    chooses a row's shard, and the file that has them, in the order of shards; or None. replicas: folders with copies
    of the shards' files, each in a folder of the cluster's own, which is named by uuid; clusters of before have none.
    retired: files of earlier generations, and when they ceased to be named.
    """

    schema: str
    table: str
    generation: int = 1
    next_id: int = 0
    next_shard: int = 0
    shards: tuple[Shard, ...] = ()
    models: dict[str, str] = field(default_factory=dict)
    centroids: tuple[str, str] | None = None
    replicas: tuple[str, ...] = ()
    uuid: str = ""
    retired: dict[str, float] = field(default_factory=dict)

    @property
    def copies(self) -> tuple[str, ...]:
        """The folders below which the shards' files are again."""
        return tuple(os.path.join(replica, self.uuid) for replica in self.replicas)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def after(self, shards: list[Shard], **changes: Any) -> Manifest:
        """Returns the next generation, with these shards."""
        now = {shard.file for shard in shards}
        gone = {shard.file: time.time() for shard in self.shards if shard.file not in now}
        next_shard = max((shard.number + 1 for shard in shards), default=0)
        return replace(
            self,
            generation=self.generation + 1,
            shards=tuple(sorted(shards, key=lambda shard: shard.number)),
            next_shard=max(self.next_shard, next_shard),
            retired={**self.retired, **gone},
            **changes,
        )


def read(folder: str) -> Manifest:
    """Reads the newest manifest. Raises ClusterError where there is none, or one of another format."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        if fields.pop("format") != FORMAT:
            raise ClusterError(f"{path}: another version of Warplite wrote it")
        fields["shards"] = tuple(Shard(**shard) for shard in fields["shards"])
        fields["replicas"] = tuple(fields["replicas"])
        fields["centroids"] = fields["centroids"] and tuple(fields["centroids"])
        return Manifest(**fields)
    except FileNotFoundError:
        raise ClusterError(f"{folder} holds no cluster: it has no {NAME}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ClusterError(f"{path} is damaged: {error}") from error


def signature(folder: str) -> tuple[int, int]:
    """Returns what differs between two manifests of the folder. Raises ClusterError where there is none."""
    try:
        status = os.stat(os.path.join(folder, NAME))
    except FileNotFoundError:
        raise ClusterError(f"{folder} holds no cluster: it has no {NAME}") from None
    return status.st_ino, status.st_mtime_ns


def write(folder: str, manifest: Manifest) -> None:
    """Commits a generation. REQUIRES: writing(folder), and its files are on disk."""
    text = json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1)
    write_file(os.path.join(folder, NAME), text.encode())


def write_file(path: str, content: bytes) -> None:
    """Writes a file wholly or not at all."""
    temporary = f"{path}.{os.getpid()}.part"
    with open(temporary, "wb") as file:
        file.write(content)
    install(temporary, path)


def install(temporary: str, path: str) -> None:
    """Gives a file that is whole its name, for good."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Holds the cluster's lock. Raises ClusterError while somebody else does."""
    descriptor = os.open(os.path.join(folder, "writer.lock"), os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ClusterError(f"{folder}: another process is writing this cluster") from None
        yield
    finally:
        os.close(descriptor)


def sweep(folder: str, manifest: Manifest, keep_seconds: float = KEEP_SECONDS) -> Manifest:
    """Removes what no manifest has named for so long, and what writers that died left; returns the manifest without it.

    Other files than a cluster's stay. REQUIRES: writing(folder).
    """
    kept = {name: since for name, since in manifest.retired.items() if since > time.time() - keep_seconds}
    named = {shard.file for shard in manifest.shards} | kept.keys()
    for root in (folder, *manifest.copies):
        shards = os.path.join(root, "shards")
        for name in os.listdir(shards) if os.path.isdir(shards) else ():
            if _OF_A_SHARD.fullmatch(name) and os.path.join("shards", name) not in named:
                os.unlink(os.path.join(shards, name))
    return replace(manifest, retired=kept)
