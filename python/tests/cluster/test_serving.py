"""The HTTP API: what clients send, what they get, and what they are refused."""

import numpy as np
import pytest

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
        ({"column": "e", "queries": []}, 422, "at least one"),
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
    monkeypatch.setattr(cluster, "search", fail(warplite.cluster.ShardError("it took too long")))
    assert client.post("/search", json=body).status_code == 504


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
