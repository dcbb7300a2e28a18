"""SQLAlchemy, Django, Datasette, sqlite-utils and llm, each by its own way of adding things."""

import asyncio
import json
import os
import subprocess
import sys
import zlib
from importlib import metadata

import numpy as np
import pytest

import warplite


def installed_plugin(group):
    """Skips where the package is not installed: its entry points are not known then."""
    try:
        found = [e for e in metadata.distribution("warplite").entry_points if e.group == group]
    except metadata.PackageNotFoundError:
        pytest.skip("warplite is not installed, only on the path")
    assert found
    found[0].load()


def sqlite3_loads():
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")


def test_connections_with_row_factories():
    sqlite3_loads()
    import sqlite3

    for factory in (sqlite3.Row, lambda cursor, row: {c[0]: v for c, v in zip(cursor.description, row)}):
        db = warplite.connect(":memory:", module="sqlite3")
        db.row_factory = factory
        db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
        warplite.add(db, "t", [5], e=[[1, 2]])
        assert warplite.search(db, "t", "e", [1, 2], 1)[0].tolist() == [[5]]


def test_sqlalchemy(tmp_path):
    sqlite3_loads()
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.orm import Session

    from warplite.sqlalchemy import load_into

    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    load_into(engine)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])"))
        warplite.add(connection, "t", [1, 2], e=[[1, 2], [3, 4]])
    engine.dispose()
    with Session(engine) as session:  # a new connection
        assert warplite.search(session, "t", "e", [3, 3], 1)[0].tolist() == [[2]]
        sql = sqlalchemy.text("SELECT rowid FROM t WHERE e MATCH :q ORDER BY distance LIMIT 1")
        assert session.execute(sql, {"q": "[0, 0]"}).scalar() == 1
    with pytest.raises(RuntimeError), engine.begin() as connection:
        warplite.add(connection, "t", [3], e=[[1, 2]])
        raise RuntimeError("the caller's transaction takes the row along")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == 2


def test_sqlalchemy_plugin_and_async():
    sqlite3_loads()
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip("aiosqlite")
    installed_plugin("sqlalchemy.plugins")
    from sqlalchemy.ext.asyncio import create_async_engine

    version = sqlalchemy.text("SELECT warp_version()")
    with sqlalchemy.create_engine("sqlite://?plugin=warplite").connect() as connection:
        assert connection.execute(version).scalar()

    async def ask():
        engine = create_async_engine("sqlite+aiosqlite://", plugins=["warplite"])
        async with engine.connect() as connection:
            return (await connection.execute(version)).scalar()

    assert asyncio.run(ask())


def test_django(tmp_path):
    sqlite3_loads()
    pytest.importorskip("django")
    code = f"""
import django, warplite
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["warplite.django"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {str(tmp_path / "a.db")!r}}}}},
)
django.setup()
from django.db import connection, transaction
with connection.cursor() as cursor:
    cursor.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
warplite.add(connection, "t", [1, 2], e=[[1, 2], [3, 4]])
try:
    with transaction.atomic():
        warplite.add(connection, "t", [3], e=[[1, 2]])
        raise KeyError
except KeyError:
    pass
connection.close()
with connection.cursor() as cursor:
    cursor.execute("SELECT rowid FROM t WHERE e MATCH %s ORDER BY distance LIMIT 5", ["[3, 3]"])
    print(cursor.fetchall(), warplite.search(connection, "t", "e", [0, 0], 1)[0].tolist())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "[(2,), (1,)] [[1]]\n", run.stdout + run.stderr


def test_aiosqlite():
    sqlite3_loads()
    aiosqlite = pytest.importorskip("aiosqlite")

    async def ask():
        async with aiosqlite.connect(":memory:") as db:
            with pytest.raises(TypeError, match="load_async"):
                warplite.load(db)
            with pytest.raises(TypeError, match="warp_knn_arrays"):
                warplite.search(db, "t", "e", [[1, 2]], 1)
            await warplite.load_async(db)
            async with db.execute("SELECT warp_version()") as cursor:
                return await cursor.fetchone()

    assert asyncio.run(ask())[0]


DATASETTE = """
import asyncio, json, sys
from datasette.app import Datasette

async def main():
    served = Datasette([sys.argv[1]], settings={"num_sql_threads": 3})
    async def ask(sql):
        r = await served.client.get("/a.json", params={"sql": sql, "_shape": "arrays"})
        answer = r.json()
        return answer.get("rows") or answer.get("error") or answer
    pages = ("/a/t", "/a/t?_facet=title&title__exact=a", "/a/t?_sort_desc=title", "/a/t/1", "/a/t_blocks", "/a")
    statuses = [(await served.client.get(page)).status_code for page in pages]
    print(json.dumps([statuses] + [await ask(sql) for sql in sys.argv[2:]]))

asyncio.run(main())
"""


def test_datasette_serves_and_is_locked(tmp_path):
    sqlite3_loads()
    pytest.importorskip("datasette")
    installed_plugin("datasette")
    db = warplite.connect(tmp_path / "a.db")
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], title TEXT)")
    warplite.add(db, "t", [1, 2, 3], e=[[1, 2], [3, 4], [5, 6]], title=["a", "b", "c"])
    db.close()
    np.save(tmp_path / "secret.npy", np.zeros((1, 2)))
    questions = (
        "SELECT rowid, title FROM t WHERE e MATCH '[3, 4]' AND title <> 'b' ORDER BY distance LIMIT 1",
        f"SELECT * FROM warp_vectors_file('{tmp_path}/secret.npy')",
        "SELECT warp_config('threads', 1)",
        "SELECT warp_config('external_access', 1)",
        "SELECT load_extension('x')",
    )
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", DATASETTE, tmp_path / "a.db", *questions]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    statuses, rows, *refusals = json.loads(run.stdout)
    assert set(statuses) == {200}, statuses
    assert rows == [[1, "a"]]
    for refusal, why in zip(refusals, ("external_access", "lock_configuration", "lock_configuration", "authoriz")):
        assert isinstance(refusal, str) and why in refusal, refusals


def test_sqlite_utils(tmp_path):
    sqlite3_loads()
    pytest.importorskip("sqlite_utils")
    installed_plugin("sqlite_utils")
    command = [sys.executable, "-m", "sqlite_utils", "memory", "SELECT warp_version() AS v"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert '"v": "' in run.stdout, run.stdout + run.stderr


def test_plugins_warn_where_loading_cannot_be_done(monkeypatch):
    from warplite._plugins import load_or_warn

    connection = type("Connection", (), {"execute": None, "cursor": None})()
    with pytest.warns(RuntimeWarning, match="pysqlite3-binary"):
        assert not load_or_warn(connection)


@pytest.fixture
def collection(tmp_path):
    sqlite3_loads()
    llm = pytest.importorskip("llm")
    import sqlite_utils

    db = sqlite_utils.Database(tmp_path / "embeddings.db")

    class Model(llm.EmbeddingModel):
        model_id = "fake"

        def embed_batch(self, items):
            return [np.random.default_rng(zlib.crc32(item.encode())).standard_normal(8).tolist() for item in items]

    theirs = llm.Collection("c", db, model=Model())
    theirs.embed_multi([(f"{'ab'[i % 2]}{i}", f"text {i}") for i in range(300)], store=True)
    return theirs


def test_llm_answers_as_similar_does(collection, monkeypatch, tmp_path):
    import llm

    from warplite.llm import Collection

    ours = Collection("c", collection.db, model=collection._model)

    def same(*arguments, **options):
        for method in ("similar_by_id", "similar"):
            a, b = (getattr(which, method)(*arguments, **options) for which in (collection, ours))
            assert [e.id for e in a] == [e.id for e in b] and [e.content for e in a] == [e.content for e in b]
            assert np.allclose([e.score for e in a], [e.score for e in b], atol=1e-6)

    same("a0", number=7)
    same("b7", number=500, prefix="b")
    collection.embed("a0", "something else", store=True)  # changed, added, deleted
    collection.embed("new", "text 7 or so", store=True)
    collection.db.execute("DELETE FROM embeddings WHERE id = 'b1'")
    same("a0", number=500)
    for id_ in [row["id"] for row in collection.db["embeddings"].rows]:  # by another model
        collection.db["embeddings"].update((1, id_), {"embedding": llm.encode([zlib.crc32(id_.encode()) / 1e9, 1.0])})
    assert len(ours.similar_by_vector([3.0, 1.0], 500)) == 300
    installed_plugin("llm")
    command = [sys.executable, "-m", "llm", "{}", "c", "a0", "-n", "3", "-d", tmp_path / "embeddings.db"]
    lines = []
    for name in ("similar", "nearest"):
        command[3] = name
        run = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "LLM_USER_PATH": str(tmp_path)}
        )
        assert run.returncode == 0, run.stderr
        lines.append([json.loads(line)["id"] for line in run.stdout.splitlines()])
    assert lines[0] == lines[1] and len(lines[0]) == 3
    ours.delete()
    assert not llm.Collection.exists(collection.db, "c")
    assert not [name for name in collection.db.table_names() if name.startswith("warplite")]
