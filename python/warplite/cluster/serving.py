"""A cluster over HTTP: a FastAPI application, and a deployment of Ray Serve that has it.

    python -m warplite.cluster.serving /data/papers --port 8000

Every answer is JSON. Routes: POST /search /range /match_count /sequence /documents; GET /health /metrics. Where the
environment variable WARPLITE_API_KEYS names keys, separated by commas, a request has one of them in its header
`Authorization: Bearer KEY`; /health needs none. A filter is SQL, which runs in a connection that can only read the
cluster's table: give keys to those who may read all of it.
"""

from __future__ import annotations

import argparse
import hmac
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from ._cluster import Cluster
from ._errors import OverloadedError, ShardError

MOST_QUERIES = 1024
MOST_K = 10_000
MOST_BYTES = 64 << 20  # of a request


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")
    filter: str | None = None
    allow_partial: bool = False


class Search(_Request):
    """The k rows nearest to each vector."""

    column: str
    queries: list[list[float]] = Field(max_length=MOST_QUERIES)
    k: int = Field(10, ge=1, le=MOST_K)
    recall: float | None = Field(None, gt=0, le=1)
    probe: int | None = Field(None, ge=1)


class Range(_Request):
    """Every row within a radius of each vector or text."""

    column: str
    queries: list[list[float]] | list[str] = Field(max_length=MOST_QUERIES)
    radius: float


class MatchCount(_Request):
    """The k rows that match most items of each query."""

    queries: list[dict[str, Any]] = Field(max_length=MOST_QUERIES)
    k: int = Field(10, ge=1, le=MOST_K)


class Texts(_Request):
    """The k rows whose texts are nearest to each text, or share most words with it."""

    column: str
    queries: list[str] = Field(max_length=MOST_QUERIES)
    k: int = Field(10, ge=1, le=MOST_K)


class _Metrics:
    """What /metrics shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "warplite_requests", "Requests by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram("warplite_seconds", "Seconds of a request", ["route"], registry=self.registry)
        self.rows = Gauge("warplite_rows", "Rows of the cluster", registry=self.registry)
        self.generation = Gauge("warplite_generation", "Generation of the manifest", registry=self.registry)
        self.partial = Counter("warplite_partial", "Answers without shards that failed", registry=self.registry)


def application(cluster: Cluster, keys: frozenset[str] | None = None) -> FastAPI:
    """Returns the application. keys: those of WARPLITE_API_KEYS if not given; none: every request is served."""
    if keys is None:
        keys = frozenset(filter(None, os.environ.get("WARPLITE_API_KEYS", "").split(",")))
    metrics = _Metrics()
    app = FastAPI(title="Warplite", docs_url=None, redoc_url=None)
    allowed = [Depends(_key_check(keys))] if keys else []

    @app.middleware("http")
    async def observe(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        began, route = time.monotonic(), request.url.path
        if int(request.headers.get("content-length") or 0) > MOST_BYTES or "chunked" in request.headers.get(
            "transfer-encoding", ""
        ):
            response = Response(f'{{"detail":"a request has a length, of at most {MOST_BYTES} bytes"}}', 413)
        else:
            response = await proceed(request)
        known = route if any(getattr(r, "path", None) == route for r in app.routes) else "other"
        metrics.requests.labels(known, response.status_code).inc()
        metrics.seconds.labels(known).observe(time.monotonic() - began)
        return response

    async def answer(ask: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            found = await run_in_threadpool(ask, *arguments, **options)
        except OverloadedError as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from error
        except ShardError as error:
            raise HTTPException(504 if "too long" in str(error) else 503, str(error)) from error
        except Exception as error:  # SQLite's modules have no class of their own for what was asked wrongly
            raise HTTPException(400, str(error)) from error
        if found.coverage < 1 and "probe" not in options:
            metrics.partial.inc()
        return {name: _plain(value) for name, value in found._asdict().items()}

    @app.post("/search", dependencies=allowed)
    async def search(body: Search) -> dict[str, Any]:
        options = body.model_dump(include={"filter", "allow_partial", "recall", "probe"}, exclude_none=True)
        return await answer(cluster.search, body.column, _vectors(body.queries), body.k, **options)

    @app.post("/range", dependencies=allowed)
    async def range_(body: Range) -> dict[str, Any]:
        queries = body.queries if body.queries and isinstance(body.queries[0], str) else _vectors(body.queries)
        return await answer(cluster.range, body.column, queries, body.radius, **_options(body))

    @app.post("/match_count", dependencies=allowed)
    async def match_count(body: MatchCount) -> dict[str, Any]:
        return await answer(cluster.match_count, body.queries, body.k, **_options(body))

    @app.post("/sequence", dependencies=allowed)
    async def sequence(body: Texts) -> dict[str, Any]:
        return await answer(cluster.sequence, body.column, body.queries, body.k, **_options(body))

    @app.post("/documents", dependencies=allowed)
    async def documents(body: Texts) -> dict[str, Any]:
        return await answer(cluster.documents, body.column, body.queries, body.k, **_options(body))

    @app.get("/health")
    async def health() -> dict[str, Any]:
        try:
            manifest = await run_in_threadpool(lambda: cluster.manifest)
        except Exception as error:
            raise HTTPException(503, "the cluster's manifest cannot be read") from error
        return {"status": "ok", "generation": manifest.generation, "rows": manifest.rows}

    @app.get("/metrics", dependencies=allowed)
    async def show_metrics() -> Response:
        manifest = await run_in_threadpool(lambda: cluster.manifest)
        metrics.rows.set(manifest.rows)
        metrics.generation.set(manifest.generation)
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def _key_check(keys: frozenset[str]) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Every key is compared, and each for as long: time says nothing of them.
        matches = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in keys]
        if scheme.lower() != "bearer" or not any(matches):
            raise HTTPException(401, "a key is needed: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})

    return check


def _options(body: _Request) -> dict[str, Any]:
    return body.model_dump(include={"filter", "allow_partial"}, exclude_none=True)


def _vectors(queries: Any) -> np.ndarray[Any, Any]:
    array = np.array(queries, np.float32) if len({len(query) for query in queries}) <= 1 else None
    if array is None or array.ndim != 2:
        raise HTTPException(422, "queries: vectors of one length were expected, at least one")
    return array


def _plain(value: Any) -> Any:
    """Returns what JSON can say: a missing row has the id -1 and the distance null."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "f":
        value = np.where(np.isnan(value), None, value)  # type: ignore[call-overload]
    return value.tolist()


def deployment(path: str, **options: Any) -> Any:
    """Returns the application for `ray.serve.run()`: of one replica, whose actors have the shards.

    options: of Cluster; `timeout`, `in_flight` and `waiting` bound what a client can ask for.
    """
    from ray import serve

    def build() -> FastAPI:
        return application(Cluster(path, **options))

    return serve.deployment(max_ongoing_requests=256)(serve.ingress(build)()).bind()


def from_environment(_: dict[str, str]) -> Any:
    """Returns deployment() of the cluster that WARPLITE_CLUSTER names: an import path for Ray Serve's files."""
    return deployment(os.environ["WARPLITE_CLUSTER"])


def main() -> None:
    """Serves a cluster by Ray Serve until it is interrupted."""
    from ray import serve

    parser = argparse.ArgumentParser(prog="python -m warplite.cluster.serving", description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", default=8000, type=int)
    parser.add_argument("--timeout", default=30.0, type=float, help="seconds that shards have for a batch")
    given = parser.parse_args()
    serve.start(http_options={"host": given.host, "port": given.port})
    serve.run(deployment(given.path, timeout=given.timeout), blocking=True)


if __name__ == "__main__":
    main()
