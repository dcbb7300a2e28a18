"""A cluster over HTTP: a FastAPI application, and a deployment of Ray Serve that has it.

    python -m warplite.cluster.serving /data/papers --port 8000

Every answer is JSON. Routes: POST /search /range /match_count /sequence /documents; GET /health /metrics. Where the
environment variable WARPLITE_API_KEYS names keys, separated by commas, a request has one of them in its header
`Authorization: Bearer KEY`; /health needs none. A filter is SQL, which runs in a connection that can only read the
cluster's table: give keys to those who may read all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from ._cluster import Cluster
from ._errors import ClusterError, OverloadedError, TimedOutError
from ._waiting import CALLER, Caller

MOST_QUERIES = 1024
MOST_K = 10_000
MOST_PAIRS = 1_000_000  # of an answer of /range
MOST_BYTES = 64 << 20  # of a request
_OPEN = {"/health", "/openapi.json"}  # to those who have no key
_PIECE = 10_000  # numbers that are encoded at once


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


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": why}
    for status, why in {
        400: "What was asked wrongly",
        401: "No key, or another one",
        413: "The request is too large",
        503: "Too many wait, or shards are gone",
        504: "It took too long",
    }.items()
}


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
    """Returns the application. keys: those of WARPLITE_API_KEYS if not given; none: every request is served.

    Raises ValueError for keys that no request can have.
    """
    keys = _checked(_keys_here() if keys is None else keys)
    metrics = _Metrics()
    # A search waits for its turn in a thread; there are some more, in which those are refused that find too many there.
    threads = ThreadPoolExecutor(cluster.gate.places + 8, "warplite")
    app = FastAPI(title="Warplite", docs_url=None, redoc_url=None)
    # The key is checked before; this names it in /openapi.json.
    named = [Depends(HTTPBearer(auto_error=False, description="one of WARPLITE_API_KEYS"))] if keys else []
    asked: dict[str, Any] = {"dependencies": named, "response_model": dict[str, Any], "responses": _REFUSALS}

    @app.middleware("http")
    async def observe(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        began = time.monotonic()
        route = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        response = _refusal(request, frozenset() if route in _OPEN else keys) or await proceed(request)
        known = route if any(getattr(r, "path", None) == route for r in app.routes) else "other"
        metrics.requests.labels(known, response.status_code).inc()
        metrics.seconds.labels(known).observe(time.monotonic() - began)
        return response

    @app.exception_handler(StarletteHTTPException)
    async def refuse(_: Request, error: StarletteHTTPException) -> Response:
        return _problem(error.status_code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def refuse_form(_: Request, error: RequestValidationError) -> Response:
        # Without what was given, which may be megabytes.
        return _problem(422, [{name: part[name] for name in ("type", "loc", "msg")} for part in error.errors()])

    async def answer(request: Request, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Response:
        caller = Caller()

        def search() -> tuple[float, str]:
            CALLER.set(caller)
            found = ask(*arguments, **options)
            return found.coverage, _json(found._asdict())

        searching = asyncio.get_running_loop().run_in_executor(threads, search)
        leaving = asyncio.ensure_future(_until_left(request))
        either: set[asyncio.Future[Any]] = {searching, leaving}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not searching.done():
                raise HTTPException(499, "the client has left")
            coverage, text = searching.result()
        except HTTPException:
            raise
        except TimedOutError as error:
            raise HTTPException(504, str(error)) from error
        except ClusterError as error:
            again = {"Retry-After": "1"} if isinstance(error, OverloadedError) else None
            raise HTTPException(503, str(error), again) from error
        except Exception as error:  # SQLite's modules have no class of their own for what was asked wrongly
            raise HTTPException(400, str(error)) from error
        finally:
            caller.leave()
            leaving.cancel()
            searching.cancel()
        if coverage < 1 and "probe" not in options:
            metrics.partial.inc()
        return Response(text, media_type="application/json")

    @app.post("/search", **asked)
    async def search(body: Search, request: Request) -> Response:
        options = body.model_dump(include={"filter", "allow_partial", "recall", "probe"}, exclude_none=True)
        return await answer(request, cluster.search, body.column, _vectors(body.queries), body.k, **options)

    @app.post("/range", **asked)
    async def range_(body: Range, request: Request) -> Response:
        queries = body.queries if body.queries and isinstance(body.queries[0], str) else _vectors(body.queries)
        options = {**_options(body), "most": MOST_PAIRS}
        return await answer(request, cluster.range, body.column, queries, body.radius, **options)

    @app.post("/match_count", **asked)
    async def match_count(body: MatchCount, request: Request) -> Response:
        return await answer(request, cluster.match_count, body.queries, body.k, **_options(body))

    @app.post("/sequence", **asked)
    async def sequence(body: Texts, request: Request) -> Response:
        return await answer(request, cluster.sequence, body.column, body.queries, body.k, **_options(body))

    @app.post("/documents", **asked)
    async def documents(body: Texts, request: Request) -> Response:
        return await answer(request, cluster.documents, body.column, body.queries, body.k, **_options(body))

    @app.get("/health")
    async def health() -> dict[str, Any]:
        try:
            manifest = await run_in_threadpool(lambda: cluster.manifest)
        except Exception as error:
            raise HTTPException(503, "the cluster's manifest cannot be read") from error
        return {"status": "ok", "generation": manifest.generation, "rows": manifest.rows}

    @app.get("/metrics", dependencies=named)
    async def show_metrics() -> Response:
        manifest = await run_in_threadpool(lambda: cluster.manifest)
        metrics.rows.set(manifest.rows)
        metrics.generation.set(manifest.generation)
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def _keys_here() -> frozenset[str]:
    return frozenset(filter(None, os.environ.get("WARPLITE_API_KEYS", "").split(",")))


def _checked(keys: frozenset[str]) -> frozenset[str]:
    if not all(re.fullmatch("[!-~]+", key) for key in keys):
        raise ValueError(
            "WARPLITE_API_KEYS: a key has no characters but ASCII's, and no spaces: a header holds no others"
        )
    return keys


def _refusal(request: Request, keys: frozenset[str]) -> Response | None:
    """Returns what a request gets that has none of the keys, or whose body is too long: before the body is read."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Every key is compared, and each for as long: time says nothing of them.
    matches = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in keys]
    if keys and (scheme.lower() != "bearer" or not any(matches)):
        return _problem(401, "a key is needed: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})
    length = request.headers.get("content-length") or "0"
    is_chunked = "chunked" in request.headers.get("transfer-encoding", "")
    if is_chunked or not length.isdecimal() or int(length) > MOST_BYTES:
        return _problem(413, f"a request has a length, of at most {MOST_BYTES} bytes")
    return None


def _problem(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Returns what is no answer, in ASCII: what was asked may be no Unicode, and be quoted."""
    return Response(json.dumps({"detail": detail}), status, headers, "application/json")


async def _until_left(request: Request) -> None:
    """Returns when the client has left. REQUIRES: the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _options(body: _Request) -> dict[str, Any]:
    return body.model_dump(include={"filter", "allow_partial"}, exclude_none=True)


def _vectors(queries: Any) -> Any:
    if not queries:
        return []
    array = np.array(queries, np.float32) if len({len(query) for query in queries}) == 1 else None
    if array is None or array.ndim != 2:
        raise HTTPException(422, "queries: vectors of one length were expected")
    return array


def _json(value: Any) -> str:
    """Returns what JSON can say: a missing row has the id -1 and the distance null.

    Python's encoder lets no other thread run, so it gets some thousand numbers at a time.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if not isinstance(value, np.ndarray):
        return json.dumps(value)
    if value.ndim > 1:
        return "[" + ",".join(map(_json, value)) + "]"
    pieces = (value[i : i + _PIECE].tolist() for i in range(0, len(value), _PIECE))
    if value.dtype.kind == "f":
        pieces = ([number if math.isfinite(number) else None for number in piece] for piece in pieces)
    return "[" + ",".join(json.dumps(piece)[1:-1] for piece in pieces) + "]"


def deployment(path: str, **options: Any) -> Any:
    """Returns the application for `ray.serve.run()`: of one replica, whose actors have the shards.

    options: of Cluster; `timeout`, `in_flight` and `waiting` bound what a client can ask for. Keys are those of
    WARPLITE_API_KEYS here, or else where the replica runs. Raises ValueError for keys that no request can have.
    """
    from ray import serve

    path, keys = os.path.abspath(path), _checked(_keys_here())

    def build() -> FastAPI:
        return application(Cluster(path, **options), keys or None)

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
    parser.add_argument("--timeout", default=30.0, type=float, help="seconds from a request to its answer")
    given = parser.parse_args()
    served = deployment(given.path, timeout=given.timeout)
    serve.start(http_options={"host": given.host, "port": given.port})
    serve.run(served, blocking=True)


if __name__ == "__main__":  # by its own name, under which Ray's processes find what they are sent
    from warplite.cluster import serving

    serving.main()
