"""Searches of a cluster: each is of one generation, and its answer that of one file with all of the rows."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import ray

from .._search import plain_options, whole
from .._sparse import CompressedRows
from .._vectors import query_array
from . import _manifest
from ._answers import Array, Columns, Fused, Matches, Neighbors, Pairs, Sequences, fuse, ranked
from ._asking import Actors, Policy, shard_error
from ._errors import ClusterError, at_least
from ._filters import FilterCheck
from ._manifest import Manifest, Shard
from ._reading import Question, merge
from ._routing import Router, nearest_centroids
from ._table import bytes_each, describe, encoded, option
from ._waiting import Gate

_Self = TypeVar("_Self", bound="Searcher")
_ANSWER_BYTES = 1 << 27  # of one batch of queries, or of its answers
_LONGEST = 1e8  # seconds that a search may take; threads cannot wait for ever longer


@dataclass(frozen=True)
class _Run:
    """A search as it runs: of which generation, until when, and whether an answer of some shards will do."""

    manifest: Manifest
    end: float
    allow_partial: bool


class Searcher:
    """A cluster as it is searched: a context manager, which ends its actors.

    Threads: any number may search at once. A search reads the newest manifest, and is of that generation.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        actors: int | None = None,
        replicas: int = 1,
        settings: dict[str, Any] | None = None,
        timeout: float = 30.0,
        patience: float = 1.0,
        in_flight: int = 4,
        waiting: int = 64,
        **ray_options: Any,
    ) -> None:
        """Actors begin with the first search.

        actors: how many share the shards; if not given, one on each machine, or on each GPU where ``num_gpus`` is.
            Those of one machine share its cores. replicas: actors that have the same shards. settings: of warp_config,
            for each actor, e.g. ``{"threads": 4}``.
        timeout: seconds from the call to the answer, those included that a search waits for its turn; as many again for
            each further batch of queries, where answers have more than 128 MB. What actors take to start, the first
            time, is not counted.
        patience: seconds after which a replica is asked as well.
        in_flight: searches at once; others wait, and beyond `waiting` of them searches fail.
        ray_options: of actors, e.g. ``num_gpus=0.25``.
        """
        at_least(1, replicas=replicas, in_flight=in_flight, actors=1 if actors is None else actors)
        at_least(0, waiting=waiting)
        if not timeout > 0:
            raise ValueError(f"timeout: expected a number of seconds above 0, got {timeout!r}")
        self._folder = os.path.abspath(path)
        self._read = _manifest.read(self._folder)
        self._signature = _manifest.signature(self._folder)
        self._table = describe(self._read.schema)
        self._filters = FilterCheck(self._table)
        self._options = (actors, replicas, settings or {}, ray_options)
        self._policy = Policy(min(timeout, _LONGEST), patience, ahead=in_flight)
        self._started: Actors | None = None
        self._lock = threading.Lock()
        self.gate = Gate(in_flight, waiting)  # for searches

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the actors."""
        with self._lock:
            if self._started is not None:
                self._started.close()
            self._started = None
        self._filters.close()

    @property
    def manifest(self) -> Manifest:
        """The newest manifest."""
        signature = _manifest.signature(self._folder)
        with self._lock:
            if signature != self._signature:
                self._read, self._signature = _manifest.read(self._folder), signature
            return self._read

    # --- searching ---------------------------------------------------------

    def search(
        self,
        column: str,
        queries: Any,
        k: int,
        *,
        filter: str | None = None,
        allow_partial: bool = False,
        probe: int | None = None,
        **options: Any,
    ) -> Neighbors:
        """Returns the k rows nearest to each query, as warplite.search() does of one file.

        options: of warp_knn_arrays, e.g. ``recall=0.95, exact=True``. probe: of a cluster cut by this column, shards
            that each query looks into, those of the nearest centroids; all if not given. `coverage` is then the share
            of the rows that are in them, of the query that looked at fewest.

        Raises ShardError where shards do not answer, unless `allow_partial`, TimedOutError of these where it took too
        long; OverloadedError; ValueError for queries of another shape, and for filters with a sub-query; the SQLite
        module's own error for what the extension refuses.
        """
        blobs = encoded(self._table, column, queries)
        question = self._question("nearest", column, None, filter, options, k=whole(k))
        shards = None if probe is None else self._router(column, queries, probe)
        most = max(bytes_each(blobs), 16 * whole(k))
        found, coverage, generation = self._ask_in_batches(question, blobs, most, allow_partial, shards)
        return Neighbors(found["id"], found["distance"], coverage, generation)

    def range(
        self,
        column: str,
        queries: Any,
        radius: float,
        *,
        filter: str | None = None,
        allow_partial: bool = False,
        most: int | None = None,
    ) -> Pairs:
        """Returns every row within the radius of each query: vectors, or texts under edit distance.

        most: pairs of a query and a row that there may be; ValueError where there are more.
        """
        at_least(0, most=0 if most is None else most)
        texts = column.lower() not in {*self._table.vectors, *self._table.sparse}
        given = self._texts(column, queries) if texts else encoded(self._table, column, queries)
        question = self._question("pairs", column, given, filter, radius=float(radius), most=most)
        found, coverage, generation = self._ask(question, allow_partial)
        return Pairs(found["query"], found["id"], found["distance"], coverage, generation)

    def match_count(
        self, queries: Sequence[dict[str, Any]], k: int, *, filter: str | None = None, allow_partial: bool = False
    ) -> Matches:
        """Returns the k rows that match most items of each query, e.g. ``{"year": [2015, 2020], "venue": "ICDE"}``."""
        given = [json.dumps(query) for query in ([queries] if isinstance(queries, dict) else queries)]
        question = self._question("matches", "", given, filter, k=whole(k))
        found, coverage, generation = self._ask(question, allow_partial)
        return Matches(found["id"], found["matches"], coverage, generation)

    def documents(
        self, column: str, texts: Any, k: int, *, filter: str | None = None, allow_partial: bool = False
    ) -> Matches:
        """Returns the k rows with most words in common with each text, of a column with ``index=words``."""
        question = self._question("documents", column, self._texts(column, texts), filter, k=whole(k))
        found, coverage, generation = self._ask(question, allow_partial)
        return Matches(found["id"], found["matches"], coverage, generation)

    def sequence(
        self,
        column: str,
        texts: Any,
        k: int,
        *,
        candidates: int | None = None,
        filter: str | None = None,
        allow_partial: bool = False,
    ) -> Sequences:
        """Returns the k texts nearest to each text under edit distance, of a column with ``index=ngram``.

        candidates: of each shard; without it, as many as prove that the k are the nearest.
        """
        given = self._texts(column, texts)
        question = self._question("sequences", column, given, filter, k=whole(k), candidates=candidates)
        found, coverage, generation = self._ask(question, allow_partial)
        return Sequences(found["id"], found["distance"], found["certified"], coverage, generation)

    def hybrid(
        self,
        sources: Sequence[tuple[str, Any]],
        k: int,
        *,
        fusion: str = "rrf",
        weights: Sequence[float] | None = None,
        depth: int | None = None,
        filter: str | None = None,
        allow_partial: bool = False,
        **options: Any,
    ) -> Fused:
        """Returns one ranking of several searches, as warp_hybrid_search() of one file.

        sources: columns, and a query of each: a vector (sparse: a SciPy matrix of one row), or a text for a column with
            ``index=words`` or ``index=ngram``.
        A query that is None finds nothing. (Scores of FTS5 depend on what else is in a file, so there are none here.)
        fusion: ``rrf``, the sum of weight / (60 + rank), or ``linear``. depth: rows of each source that are fused.
        """
        if fusion not in ("rrf", "linear"):
            raise ValueError(f"fusion: expected rrf or linear, got {fusion!r}")
        if weights is not None and len(weights) != len(sources):
            raise ValueError(f"weights: expected {len(sources)}, one for each source, got {len(weights)}")
        most = depth or max(whole(k), 100)
        questions = [self._source(column, query, most, filter, options) for column, query in sources]

        def ask_all(run: _Run) -> tuple[Columns, float]:
            lists, covered = [], 1.0
            for question in questions:
                if question is None:
                    lists.append(ranked({}))
                    continue
                found, coverage = self._ask_once(run, question, None)
                lists.append(ranked(found))
                covered = min(covered, coverage)
            return fuse(lists, weights or [1.0] * len(lists), fusion == "linear", whole(k)), covered

        found, coverage, generation = self._of_one_generation(ask_all, allow_partial)
        return Fused(found["id"], found["score"], found["rank"], coverage, generation)

    def _source(
        self, column: str, query: Any, depth: int, filter: str | None, options: dict[str, Any]
    ) -> Question | None:
        if query is None:
            return None
        if column.lower() in {*self._table.vectors, *self._table.sparse}:
            blobs = encoded(self._table, column, query)
            return self._question("nearest", column, blobs[:1], filter, options, k=depth)
        index = option(self._read.schema, column, "index")
        operation = {"words": "documents", "ngram": "sequences"}.get(index)
        if operation is None:
            raise ValueError(f"{self._table.name}.{column} is no column of vectors, and has no index=words or ngram")
        text_options = {key: value for key, value in options.items() if key == "device"}
        return self._question(operation, column, self._texts(column, [query]), filter, text_options, k=depth)

    def _texts(self, column: str, texts: Any) -> list[str]:
        if isinstance(texts, str):
            return [texts]
        listed = texts
        for convert in ("to_pylist", "tolist"):  # Arrow; NumPy, pandas
            if hasattr(texts, convert):
                listed = getattr(texts, convert)()
                break
        for text in listed:
            if not isinstance(text, str):
                raise ValueError(f"{self._table.name}.{column}: expected texts, got {text!r}")
        return list(listed)

    def _question(
        self,
        operation: str,
        column: str,
        queries: Any,
        filter: str | None,
        options: dict[str, Any] | None = None,
        **rest: Any,
    ) -> Question:
        """Raises ValueError for a filter that would not mean in a shard what it means in one file."""
        options = plain_options(options or {})
        if filter is not None:
            self._filters.check(filter)
            options["filter"] = filter
        return Question(operation, self._table.name, column, queries, options=options, **rest)

    def _ask_in_batches(
        self,
        question: Question,
        blobs: Array | CompressedRows,
        most_bytes: int,
        allow_partial: bool,
        shards: Router | None,
    ) -> tuple[Columns, float, int]:
        """Asks as many queries at a time as one answer has room for. All are of one generation."""
        most = max(1, _ANSWER_BYTES // most_bytes)
        if len(blobs) <= most:
            return self._ask(replace(question, queries=blobs), allow_partial, shards if len(blobs) else None)

        batches = [slice(i, i + most) for i in range(0, len(blobs), most)]

        def ask_all(run: _Run) -> tuple[Columns, float]:
            parts = []
            for some in batches:
                router = None if shards is None else shards[some]
                parts.append(self._ask_once(run, replace(question, queries=blobs[some]), router))
            joined = {name: np.concatenate([part[name] for part, _ in parts]) for name in parts[0][0]}
            return joined, min(coverage for _, coverage in parts)

        return self._of_one_generation(ask_all, allow_partial, len(batches))

    def _ask(self, question: Question, allow_partial: bool, shards: Router | None = None) -> tuple[Columns, float, int]:
        return self._of_one_generation(lambda run: self._ask_once(run, question, shards), allow_partial)

    def _of_one_generation(
        self, ask: Callable[[_Run], tuple[Columns, float]], allow_partial: bool, batches: int = 1
    ) -> tuple[Columns, float, int]:
        """Begins again where files went meanwhile, because there is a newer generation for long enough."""
        end = time.monotonic() + self._policy.timeout * batches
        with self.gate.place(end):
            began = time.monotonic()
            self._actors(self.manifest).wait(self._policy.hangs)
            end += time.monotonic() - began
            while True:
                run = _Run(self.manifest, end, allow_partial)
                try:
                    return (*ask(run), run.manifest.generation)
                except ClusterError:
                    if self.manifest.generation == run.manifest.generation:
                        raise

    def _ask_once(self, run: _Run, question: Question, router: Router | None) -> tuple[Columns, float]:
        if router is not None:
            return router.ask(run.manifest, question, lambda q, shards: self._ask_shards(run, q, shards))
        return self._ask_shards(run, question, run.manifest.shards)

    def _ask_shards(self, run: _Run, question: Question, shards: Sequence[Shard]) -> tuple[Columns, float]:
        manifest = run.manifest
        folders = [self._folder, *manifest.copies]
        actors = self._actors(manifest)
        answers, failed = actors.ask(manifest.generation, shards, folders, question, self._policy, run.end)
        if failed and not (run.allow_partial and answers):
            raise shard_error(failed, run.end)
        searched = sum(shard.rows for shard in shards if shard not in failed)
        return merge(question, answers), searched / manifest.rows if manifest.rows else 1.0

    def _actors(self, manifest: Manifest) -> Actors:
        with self._lock:
            if self._started is None:
                actors, replicas, settings, ray_options = self._options
                machines, places = _places(ray_options.get("num_gpus", 0))
                groups = actors or max(1, min(len(manifest.shards), places // replicas))
                self._started = Actors(groups, replicas, -(-groups // machines), settings, ray_options)
            return self._started

    def _router(self, column: str, queries: Any, probe: int) -> Router:
        at_least(1, probe=probe)
        manifest = self.manifest
        where = f"{self._table.name}.{column}"
        if manifest.centroids is None or manifest.centroids[0].lower() != column.lower():
            raise ValueError(f"{where}: the cluster was not cut by this column; probe= needs that")
        array = np.asarray(query_array(queries, self._table.vectors[column.lower()], where), np.float32)
        return Router(nearest_centroids(self._folder, manifest, array, probe))


def _places(num_gpus: float) -> tuple[int, int]:
    """Returns how many machines there are, and how many actors that take so much of a GPU they have room for."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    machines = [resources for resources in machines if resources.get("CPU", 0) >= 1] or [{}]
    gpus = sum(resources.get("GPU", 0) for resources in machines)
    return len(machines), int(gpus / num_gpus + 1e-9) if num_gpus else len(machines)
