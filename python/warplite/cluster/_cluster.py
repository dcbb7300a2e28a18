"""A cluster as programs use it: made, written and searched."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import ray

from . import _manifest, _sources, _writing
from ._building import (
    carry_out,
    check_distinct,
    commit,
    dealt,
    draw,
    find_centroids,
    learn,
    only_vector,
    packed,
    results,
)  # fmt: skip
from ._errors import ClusterError, at_least
from ._manifest import Manifest, Shard, file_name
from ._searching import Searcher
from ._sources import Piece
from ._table import as_ids, describe
from ._writing import Order

SAMPLE_ROWS = 100_000
SMALL_ROWS = 100_000  # rows are added to a copy of a shard that has fewer


def create(
    path: str | os.PathLike[str],
    schema: str,
    *,
    source: Any,
    shards: int,
    ids: str | None = None,
    column: str | None = None,
    sample: int = SAMPLE_ROWS,
    replicas: Sequence[str | os.PathLike[str]] = (),
    cut_by: str | None = None,
) -> Cluster:
    """Makes a cluster of a source's rows, in parallel, and returns it.

    path: a folder that every machine sees; it is made.
    schema: one statement, ``CREATE VIRTUAL TABLE … USING warp(…)``.
    source: files (.parquet .npy .fbin .u8bin .i8bin .fvecs .bvecs .ivecs .csv .jsonl; a path, a pattern, or a list of
        them, which every machine sees), a Ray Dataset, or arrays by columns in a dict.
    ids: the source's column of integers that are the rows' ids; without one, they are numbered from 0 in the source's
        order.
    column: of a file of vectors alone, which column they are; the only one of its kind by default.
    sample: rows of the whole source from which indexes learn, once.
    replicas: further folders, which get a copy of each shard. Several clusters may have one: each has its place there.
    cut_by: a vector column; rows near each other share a shard, and a search may pass over shards (`probe`). Without
        one, each shard has as many consecutive rows.

    Raises ClusterError where there is a cluster already, or for a schema that no cluster can have, ValueError for ids
    that are no integers of 64 bits, and what reading the source and inserting its rows raise. A folder without
    manifest.json is no cluster: the call may be repeated.
    """
    at_least(1, shards=shards)
    folder = os.path.abspath(path)
    os.makedirs(os.path.join(folder, "shards"), exist_ok=True)
    table = describe(schema)
    with _manifest.writing(folder):
        if os.path.exists(os.path.join(folder, _manifest.NAME)):
            raise ClusterError(f"{folder} holds a cluster already")
        copies = tuple(os.path.abspath(replica) for replica in replicas)
        manifest = Manifest(schema, table.name, generation=0, replicas=copies, uuid=uuid.uuid4().hex)
        column = column or only_vector(table)
        pieces = _sources.pieces_of(source, column)
        drawn = draw(pieces, table, column, sample)
        manifest = replace(manifest, models=learn(folder, schema, table, drawn))
        if cut_by is not None:
            manifest = replace(manifest, centroids=find_centroids(folder, table, schema, cut_by, shards, drawn))
        orders = [Order(schema, n, file_name(n, 1), manifest.models, column=column, ids=ids) for n in range(shards)]
        try:
            made = carry_out(folder, manifest, dealt(folder, manifest, orders, pieces, _sources.rows_in(pieces)))
            if ids is not None:
                check_distinct(folder, schema, made)
        except BaseException:  # the next try has another uuid
            for copy in manifest.copies:
                shutil.rmtree(copy, ignore_errors=True)
            raise
        commit(folder, manifest, made)
    return Cluster(folder)


def open(path: str | os.PathLike[str], **options: Any) -> Cluster:
    """Opens a cluster; `options` are Cluster's. Raises ClusterError where there is none."""
    return Cluster(path, **options)


class Cluster(Searcher):
    """A cluster that is there. Threads: as Searcher; one call at a time writes, of all processes."""

    def add(self, source: Any, *, ids: str | None = None, column: str | None = None, shards: int = 0) -> int:
        """Adds a source's rows, all or none of them, and returns how many; see create().

        Without `ids`, rows are numbered from the largest id there was on. They go to the smallest shard, or, once that
        has `SMALL_ROWS`, to a new one; to so many new ones if `shards` says; of a cluster that was cut by a column, to
        those of the nearest centroids. Raises ClusterError for an id that is there already, and ValueError
        for what is no id.
        """
        at_least(0, shards=shards)
        with _manifest.writing(self._folder):
            manifest = _manifest.read(self._folder)
            column = column or only_vector(self._table)
            pieces = _sources.pieces_of(source, column)
            rows = _sources.rows_in(pieces)
            if rows == 0:
                return 0
            if ids is not None:
                self._check_new(manifest, pieces, column, ids)
            targets = self._targets(manifest, shards)
            orders = [
                Order(
                    manifest.schema, shard.number, file_name(shard.number, manifest.generation + 1), manifest.models,
                    base=shard.file or None, column=column, ids=ids, first_id=manifest.next_id, deleted=shard.deleted,
                )
                for shard in targets
            ]  # fmt: skip
            made = carry_out(self._folder, manifest, dealt(self._folder, manifest, orders, pieces, rows))
            if ids is not None:
                check_distinct(self._folder, manifest.schema, made)
            written = {shard.number for shard in made}
            commit(self._folder, manifest, [s for s in manifest.shards if s.number not in written] + made)
            return rows

    def _targets(self, manifest: Manifest, shards: int) -> list[Shard]:
        if manifest.centroids is not None:
            return list(manifest.shards)
        if shards == 0:
            smallest = min(manifest.shards, key=lambda shard: (shard.rows, shard.number))
            if smallest.rows < SMALL_ROWS:
                return [smallest]
        return [Shard(manifest.next_shard + i, "") for i in range(max(1, shards))]

    def _check_new(self, manifest: Manifest, pieces: list[Piece], column: str, ids: str) -> None:
        order = Order(manifest.schema, 0, "", pieces=tuple(pieces), column=column, ids=ids)
        new = np.concatenate([rowids for rowids, _ in _writing.batches(order)])
        values, counts = np.unique(new, return_counts=True)
        if len(values) < len(new):
            raise ClusterError(f"{self._table.name}: the id {values[counts > 1][0]} comes twice")
        there: Any = ray.remote(_writing.ids_there)
        asked = []
        for shard in manifest.shards:
            some = values[(values >= shard.low) & (values <= shard.high)]
            if shard.rows and len(some):
                asked.append(there.remote(os.path.join(self._folder, shard.file), manifest.schema, some))
        for known in results(asked):
            if known:
                raise ClusterError(f"{self._table.name}: the id {known[0]} is there already")

    def add_shards(self, count: int) -> None:
        """Adds empty shards. Rows are not moved: the new ones take what comes."""
        at_least(1, count=count)
        with _manifest.writing(self._folder):
            manifest = _manifest.read(self._folder)
            if manifest.centroids is not None:
                raise ClusterError(f"{self._folder}: rows go to the shard of the nearest centroid; none can be added")
            numbers = range(manifest.next_shard, manifest.next_shard + count)
            generation = manifest.generation + 1
            orders = [Order(manifest.schema, n, file_name(n, generation), manifest.models) for n in numbers]
            commit(self._folder, manifest, [*manifest.shards, *carry_out(self._folder, manifest, orders)])

    def delete(self, ids: Any) -> int:
        """Deletes rows by their ids, those that are there, and returns how many. Shards that have some are copied.

        Raises ValueError for what is no id.
        """
        wanted = np.unique(as_ids(ids, "ids"))
        with _manifest.writing(self._folder):
            manifest = _manifest.read(self._folder)
            near = [s for s in manifest.shards if s.rows and np.any((wanted >= s.low) & (wanted <= s.high))]
            there: Any = ray.remote(_writing.ids_there)
            asked = [there.remote(os.path.join(self._folder, s.file), manifest.schema, wanted) for s in near]
            orders = [
                Order(
                    manifest.schema, shard.number, file_name(shard.number, manifest.generation + 1), base=shard.file,
                    delete=known, deleted=shard.deleted, compact=False,
                )
                for shard, known in zip(near, results(asked)) if known
            ]  # fmt: skip
            if not orders:
                return 0
            made = carry_out(self._folder, manifest, orders)
            written = {shard.number for shard in made}
            after = commit(self._folder, manifest, [s for s in manifest.shards if s.number not in written] + made)
            return manifest.rows - after.rows

    def compact(self, rows: int | None = None) -> None:
        """Makes one shard of small ones, up to so many rows (as many as the largest has), and forgets deleted rows."""
        with _manifest.writing(self._folder):
            manifest = _manifest.read(self._folder)
            most = rows or max((shard.rows for shard in manifest.shards), default=0)
            groups = [[s] for s in manifest.shards] if manifest.centroids else packed(manifest.shards, most)
            kept, orders = [], []
            for group in groups:
                if len(group) == 1 and not group[0].deleted:
                    kept += group
                    continue
                merge = tuple(shard.file for shard in sorted(group, key=lambda shard: shard.low))
                number = group[0].number
                file = file_name(number, manifest.generation + 1)
                orders.append(Order(manifest.schema, number, file, manifest.models, merge=merge))
            if orders:
                commit(self._folder, manifest, kept + carry_out(self._folder, manifest, orders))
