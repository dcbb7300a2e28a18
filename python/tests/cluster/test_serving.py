"""The HTTP API: what clients send, what they get, and what they are refused."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import ray

import warplite
import warplite.cluster

from .conftest import SCHEMA

testclient = pytest.importorskip("fastapi.testclient")
from warplite.cluster import serving  # noqa: E402


@pytest.fixture(scope="module")
def cluster(rows, tmp_path_factory):
    with warplite.cluster.create(tmp_path_factory.mktemp("s") / "c", SCHEMA, source=rows, shards=2) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    return testclient.TestClient(serving.application(cluster, frozenset()))


def test_searches(client, one_file, rows):
    queries = rows["e"][:3]
    body = {"column": "e", "queries": queries.tolist(), "k": 5, "filter": "year > 2010"}
    got = client.post("/search", json=body).json()
    ids, distances = warplite.search(one_file, "papers", "e", queries, 5, filter="year > 2010")
    assert got["ids"] == ids.tolist() and got["distances"] == distances.tolist()
    assert got["coverage"] == 1 and got["generation"] == 1
    got = client.post("/search", json={**body, "filter": "id = 1"}).json()
    assert got["ids"][0] == [1, -1, -1, -1, -1] and got["distances"][0][1:] == [None] * 4

    got = client.post("/match_count", json={"queries": [{"venue": "VLDB", "year": [2000, 2001]}], "k": 3}).json()
    assert got["matches"] == [[2, 2, 2]]
    got = client.post("/range", json={"column": "e", "queries": queries.tolist(), "radius": 0}).json()
    assert set(got["queries"]) == {0, 1, 2} and set(got["distances"]) == {0}
    got = client.post("/range", json={"column": "name", "queries": rows["name"][:1], "radius": 0}).json()
    assert 0 in got["ids"]
    got = client.post("/sequence", json={"column": "name", "queries": rows["name"][:2], "k": 1}).json()
    assert got["distances"] == [[0], [0]] and got["certified"] == [True, True]
    got = client.post("/documents", json={"column": "words", "queries": ["w1 w2"], "k": 2}).json()
    assert got["matches"] == [[2, 2]]


@pytest.mark.parametrize(
    "body, status, says",
    [
        ({"column": "e", "queries": [[1, 2]]}, 400, "takes vectors of 16 elements"),
        ({"column": "e", "queries": [[1], [1, 2]]}, 422, "vectors of one length"),
        ({"column": "e", "queries": [[0] * 16], "k": 0}, 422, "greater than"),
        ({"column": "e", "queries": [[0] * 16], "k": 10**9}, 422, "less than"),
        ({"column": "e", "queries": [[0] * 16] * 1025}, 422, "1024"),
        ({"column": "e", "queries": [[0] * 16], "nonsense": 1}, 422, "nonsense"),
        ({"column": "e", "queries": [[0] * 16], "filter": "nonsense > 1"}, 400, "nonsense"),
        ({"column": "e", "queries": [[0] * 16], "filter": "1; DROP TABLE papers"}, 400, "filter"),
        ({"column": "e", "queries": [[0] * 16], "filter": "EXISTS (SELECT 1 FROM warp_vectors_file('/etc/passwd'))"},
         400, "sub-query"),
        ({"column": "e", "queries": [[0] * 16], "filter": "id < (SELECT avg(id) FROM papers)"}, 400, "sub-query"),
        ({"column": "e", "queries": [[0] * 16], "filter": "warp_config('threads', 1) > 0"}, 400, "lock_configuration"),
        ({"column": "nowhere", "queries": [[0] * 16]}, 400, "nowhere"),
    ],
)  # fmt: skip
def test_what_is_refused(client, body, status, says):
    got = client.post("/search", json=body)
    assert got.status_code == status and says in got.text


def test_no_queries_have_an_empty_answer(client):
    nothing = {"coverage": 1, "generation": 1, "ids": []}
    for route, body, names in (
        ("/search", {"column": "e"}, ["distances"]),
        ("/range", {"column": "e", "radius": 1}, ["queries", "distances"]),
        ("/range", {"column": "name", "radius": 1}, ["queries", "distances"]),
        ("/match_count", {}, ["matches"]),
        ("/sequence", {"column": "name"}, ["distances", "certified"]),
        ("/documents", {"column": "words"}, ["matches"]),
    ):
        got = client.post(route, json={**body, "queries": []})
        assert got.status_code == 200 and got.json() == {**nothing, **{name: [] for name in names}}


def test_ranges_that_are_refused(client, rows, monkeypatch):
    queries = rows["e"][:2].tolist()
    got = client.post("/range", json={"column": "name", "queries": queries, "radius": 1})
    assert got.status_code == 400 and "papers.name: expected texts" in got.text
    got = client.post("/range", json={"column": "e", "queries": ["abc"], "radius": 1})
    assert got.status_code == 400 and "papers.e: queries[0]: a JSON array of 16 numbers was expected" in got.text
    body = {"column": "e", "queries": queries, "radius": 1e30}
    assert len(client.post("/range", json=body).json()["ids"]) == 8000
    monkeypatch.setattr(serving, "MOST_PAIRS", 7999)
    got = client.post("/range", json=body)
    assert got.status_code == 400 and "more than 7,999 pairs" in got.text and "smaller radius" in got.text


@pytest.mark.parametrize("name", ["column", "filter", "\\ud801"])
def test_what_is_no_unicode(client, name):
    body = {"column": "e", "queries": [[0] * 16], name: "\ud800"}
    got = client.post(
        "/search", content=json.dumps(body).replace("\\\\", "\\"), headers={"content-type": "application/json"}
    )
    assert 400 <= got.status_code < 500 and got.json()["detail"]


def test_what_was_given_is_not_sent_back(client):
    got = client.post("/search", json={"column": "e", "queries": [["x" * 10_000]]})
    assert got.status_code == 422 and len(got.text) < 1000 and "valid number" in got.text


def test_limits_and_health(client):
    assert client.get("/health").json() == {"status": "ok", "generation": 1, "rows": 4000}
    assert client.post("/search", content=b"{}", headers={"content-length": str(1 << 30)}).status_code == 413
    assert client.get("/nowhere").status_code == 404
    text = client.get("/metrics").text
    assert 'warplite_requests_total{route="/health",status="200"}' in text
    assert 'route="other",status="404"' in text and "warplite_rows 4000.0" in text


def test_keys(cluster, monkeypatch):
    monkeypatch.setenv("WARPLITE_API_KEYS", "one,two")
    client = testclient.TestClient(serving.application(cluster))
    body = {"queries": [{"year": 2000}], "k": 1}
    assert client.get("/health").status_code == 200
    assert client.get("/metrics").status_code == 401
    for header in ({}, {"Authorization": "Bearer three"}, {"Authorization": "Basic one"}, {"Authorization": "Bearer "}):
        assert client.post("/match_count", json=body, headers=header).status_code == 401
    for key in ("one", "two"):
        got = client.post("/match_count", json=body, headers={"Authorization": f"Bearer {key}"})
        assert got.status_code == 200


@pytest.mark.parametrize("key", ["sécret", "two words", "tab\t"])
def test_keys_that_no_header_holds(cluster, monkeypatch, key):
    monkeypatch.setenv("WARPLITE_API_KEYS", f"one,{key}")
    with pytest.raises(ValueError, match="WARPLITE_API_KEYS: a key has no characters but ASCII's"):
        serving.application(cluster)
    with pytest.raises(ValueError, match="WARPLITE_API_KEYS"):
        serving.deployment(cluster._folder)


def test_the_key_is_checked_before_the_body_is_read(cluster):
    app, sent = serving.application(cluster, frozenset({"one"})), []

    async def ask():
        await app(scope("/search", [(b"content-length", b"60000000")]), unread, keep)

    async def unread():
        raise AssertionError("the body was read")

    async def keep(message):
        sent.append(message)

    asyncio.run(ask())
    assert sent[0]["status"] == 401 and b"a key is needed" in sent[1]["body"]


def scope(route, headers):
    return {"type": "http", "method": "POST", "path": route, "headers": headers, "query_string": b"", "server": None}


def test_openapi_says_what_may_come(client, cluster):
    assert "security" not in client.get("/openapi.json").json()["paths"]["/search"]["post"]
    page = testclient.TestClient(serving.application(cluster, frozenset({"one"}))).get("/openapi.json").json()
    assert page["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for route in ("/search", "/range", "/match_count", "/sequence", "/documents"):
        described = page["paths"][route]["post"]
        assert described["security"] == [{"HTTPBearer": []}]
        assert {"200", "400", "401", "413", "422", "503", "504"} <= described["responses"].keys()
    assert "security" not in page["paths"]["/health"]["get"]


def slowed(cluster, monkeypatch, seconds):
    """Returns the searches that begin, each of which takes so long."""
    ask, begun = cluster._ask_once, []

    def ask_slowly(*arguments):
        begun.append(time.monotonic())
        time.sleep(seconds)
        return ask(*arguments)

    monkeypatch.setattr(cluster, "_ask_once", ask_slowly)
    return begun


QUESTION = {"queries": [{"year": 2000}], "k": 1}


def test_more_clients_than_there_is_room_for(cluster, monkeypatch):
    httpx = pytest.importorskip("httpx")
    """Who waits has no part of what answers others."""
    with warplite.cluster.open(cluster._folder, in_flight=1, waiting=45, timeout=2.5) as small:
        small.match_count({"year": 2000}, 1)
        slowed(small, monkeypatch, 1)

        async def ask():
            transport = httpx.ASGITransport(serving.application(small, frozenset()))
            async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=60) as client:
                asked = [asyncio.create_task(client.post("/match_count", json=QUESTION)) for _ in range(60)]
                await asyncio.sleep(0.3)
                began = time.monotonic()
                health = await client.get("/health")
                waited, refused = time.monotonic() - began, sum(task.done() for task in asked)
                return health.status_code, waited, refused, [got.status_code for got in await asyncio.gather(*asked)]

        health, waited, refused, statuses = asyncio.run(ask())
        assert health == 200 and waited < 0.5 and refused == statuses.count(503) == 14
        assert statuses.count(200) >= 1 and statuses.count(504) == 46 - statuses.count(200)


def test_time_passes_from_a_requests_arrival_on(cluster, monkeypatch):
    with warplite.cluster.open(cluster._folder, in_flight=1, timeout=2.0) as small:
        small.match_count({"year": 2000}, 1)
        slowed(small, monkeypatch, 3)
        client, got = testclient.TestClient(serving.application(small, frozenset())), []

        def ask():
            began = time.monotonic()
            got.append((client.post("/match_count", json=QUESTION).status_code, time.monotonic() - began))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {status for status, _ in got} == {504}
        assert sorted(seconds for _, seconds in got)[2] < 2.9  # those who waited did not wait for the first one


def test_clients_that_left_are_not_searched_for(cluster, monkeypatch):
    with warplite.cluster.open(cluster._folder, in_flight=1, waiting=1) as small:
        small.match_count({"year": 2000}, 1)
        begun, app = slowed(small, monkeypatch, 1), serving.application(small, frozenset())
        body = json.dumps(QUESTION).encode()

        async def ask(leaves):
            messages, sent = [{"type": "http.request", "body": body}], []

            async def receive():
                if messages:
                    return messages.pop()
                await leaves
                return {"type": "http.disconnect"}

            async def send(message):
                sent.append(message)

            await app(scope("/match_count", [(b"content-type", b"application/json")]), receive, send)
            return sent[0]["status"]

        async def ask_three():
            stays, leaves = asyncio.Event(), asyncio.Event()
            first = asyncio.create_task(ask(stays.wait()))
            await asyncio.sleep(0.2)
            second = asyncio.create_task(ask(leaves.wait()))
            await asyncio.sleep(0.2)
            leaves.set()
            left = await second
            third = asyncio.create_task(ask(stays.wait()))  # in its room
            return left, await first, await third

        assert asyncio.run(ask_three()) == (499, 200, 200)
        assert len(begun) == 2


def test_too_many_and_too_slow(cluster, monkeypatch, rows):
    client = testclient.TestClient(serving.application(cluster, frozenset()))
    body = {"column": "e", "queries": [[0.0] * 16], "k": 1}

    def fail(error):
        def ask(*_, **__):
            raise error

        return ask

    monkeypatch.setattr(cluster, "search", fail(warplite.cluster.OverloadedError("too many")))
    got = client.post("/search", json=body)
    assert got.status_code == 503 and got.headers["retry-after"] == "1"
    monkeypatch.setattr(cluster, "search", fail(warplite.cluster.TimedOutError("1 shards gave no answer")))
    assert client.post("/search", json=body).status_code == 504
    monkeypatch.setattr(cluster, "search", fail(warplite.cluster.ShardError("1 shards gave no answer")))
    assert client.post("/search", json=body).status_code == 503


def test_ray_serve(cluster, rows, one_file):
    from ray import serve

    httpx = pytest.importorskip("httpx")
    serve.start(http_options={"host": "127.0.0.1", "port": 8765})
    try:
        serve.run(serving.deployment(cluster._folder, actors=1), route_prefix="/")
        body = {"column": "e", "queries": rows["e"][:2].tolist(), "k": 4}
        got = httpx.post("http://127.0.0.1:8765/search", json=body, timeout=300).json()
        ids, _ = warplite.search(one_file, "papers", "e", rows["e"][:2], 4)
        np.testing.assert_array_equal(got["ids"], ids)
    finally:
        serve.shutdown()


def test_the_command(cluster, rows, one_file):
    """As the page says: as a process, which is given a path from where it is."""
    from ray import serve

    httpx = pytest.importorskip("httpx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder, name = os.path.split(cluster._folder)
    environment = {**os.environ, "WARPLITE_API_KEYS": "one", "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    command = [sys.executable, "-m", "warplite.cluster.serving", name, "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
            end = time.monotonic() + 300
            while time.monotonic() < end and process.poll() is None:
                try:
                    if client.get("/health").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.2)
            body = {"column": "e", "queries": rows["e"][:2].tolist(), "k": 4}
            assert client.post("/search", json=body).status_code == 401
            got = client.post("/search", json=body, headers={"Authorization": "Bearer one"})
            ids, _ = warplite.search(one_file, "papers", "e", rows["e"][:2], 4)
            assert got.status_code == 200 and got.json()["ids"] == ids.tolist()
            assert "/search" in client.get("/openapi.json").json()["paths"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        serve.shutdown()
