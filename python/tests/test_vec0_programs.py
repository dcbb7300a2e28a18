"""Programs that were written for sqlite-vec run with nothing changed but the loader, and answer alike.

Each is run twice, in processes of their own: with sqlite-vec, and with Warplite where sqlite-vec is loaded.

test_vec0_programs.py PROGRAM LOADER FOLDER     what such a process is
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec

import pytest

import warplite

HASHED = 16  # dimensions


def hashed(text):
    """An embedding of a text, always the same."""
    generator = random.Random(text)
    return [generator.gauss(0, 1) for _ in range(HASHED)]


def loader(connection):
    (said,) = tuple(connection.execute("SELECT vec_debug()").fetchone())
    return "warplite" if "warplite" in said else "sqlite-vec"


def langchain_embeddings():
    from langchain_core.embeddings import Embeddings

    class Hashed(Embeddings):
        def embed_documents(self, texts):
            return [hashed(text) for text in texts]

        def embed_query(self, text):
            return hashed(text)

    return Hashed()


def langchain_community(folder):
    """Its vector store SQLiteVec."""
    from langchain_community.vectorstores import SQLiteVec

    path, embeddings = os.path.join(folder, "langchain.db"), langchain_embeddings()
    texts = [f"text {i}" for i in range(60)]
    store = SQLiteVec.from_texts(texts, embeddings, [{"i": i} for i in range(60)], table="docs", db_file=path)
    yield [(d.page_content, d.metadata, s) for d, s in store.similarity_search_with_score("text 7", k=5)]
    yield store.add_texts(["more", "less"])
    store._connection.close()
    store = SQLiteVec("docs", None, embeddings, path)
    yield [d.page_content for d in store.similarity_search("more", k=1000)]
    yield [d.page_content for d in store.similarity_search_by_vector(hashed("less"))]
    yield [d.page_content for d in store.as_retriever(search_kwargs={"k": 3}).invoke("text 30")]
    yield loader(store._connection)


def langgraph(folder):
    """The memory of agents, SqliteStore, with each of its distances, and the asynchronous one."""
    from langgraph.store.sqlite import SqliteStore
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    index = {"dims": HASHED, "embed": langchain_embeddings(), "fields": ["text", "tags[*]"]}

    def found(items):
        return [(item.namespace, item.key, item.value, item.score) for item in items]

    for distance in ("cosine", "l2", "inner_product"):
        options = {**index, "distance_type": distance}
        with SqliteStore.from_conn_string(os.path.join(folder, f"{distance}.db"), index=options) as store:
            store.setup()
            for i in range(40):
                value = {"text": f"text {i}", "n": i, "tags": [f"tag {i % 3}", "x"]}
                store.put(("docs", "ab"[i % 2]), f"k{i}", value)
            store.put(("docs", "a"), "plain", {"text": "not embedded"}, index=False)
            store.put(("docs", "a"), "k4", {"text": "text four", "n": 4, "tags": []})
            store.delete(("docs", "b"), "k3")
            yield found(store.search(("docs",), query="text 8", limit=5))
            yield found(store.search(("docs", "a"), query="text 8", filter={"n": {"$gt": 10}}, limit=3, offset=1))
            yield found(store.search(("docs",), filter={"n": 5}))
            yield store.get(("docs", "a"), "k4").value, store.list_namespaces(prefix=("docs",))
            yield loader(store.conn)

    async def ask():
        async with AsyncSqliteStore.from_conn_string(os.path.join(folder, "async.db"), index=index) as store:
            await store.setup()
            for name in ("apple", "bear", "cat"):
                await store.aput(("m",), name, {"text": name})
            await store.adelete(("m",), "cat")
            return found(await store.asearch(("m",), query="bear"))

    yield asyncio.run(ask())


def mcp_memory_service(folder):
    """The storage of a server that agents keep their memories in, with its embeddings that need no model."""
    os.environ.update(MCP_MEMORY_BASE_DIR=folder, HF_HUB_OFFLINE="1", MCP_MEMORY_ALLOW_HASH_EMBEDDINGS="1")
    from mcp_memory_service.models.memory import Memory
    from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
    from mcp_memory_service.utils.hashing import generate_content_hash

    def memory(i, content=None):
        content = content or f"memory number {i} about topic {i % 5}"
        return Memory(
            content, generate_content_hash(content), tags=[f"t{i % 3}"], memory_type="note", created_at=i + 1e9
        )

    def found(results):
        return [(r.memory.content, r.memory.tags, r.relevance_score) for r in results]

    async def steps():
        storage = SqliteVecMemoryStorage(os.path.join(folder, "memory.db"))
        await storage.initialize()
        yield [await storage.store(memory(i)) for i in range(30)]
        yield await storage.store_batch([memory(i) for i in range(30, 40)])
        yield await storage.store(memory(41, "kept elsewhere"), store="other")
        yield found(await storage.retrieve(memory(7).content, 5))
        yield found(await storage.retrieve(memory(7).content, 3, tags=["t2"], min_confidence=0.1))
        yield found(await storage.retrieve("kept elsewhere", 2, store="other"))
        yield found(await storage.retrieve_hybrid("number 9", 4))
        yield found(await storage.recall("topic 3", 4, start_timestamp=1e9 + 5, end_timestamp=1e9 + 20))
        yield sorted(m.content for m in await storage.search_by_tag(["t1"]))
        yield await storage.update_memory_metadata(memory(8).content_hash, {"tags": ["t2", "new"]})
        yield (await storage.delete(memory(7).content_hash))[0], (await storage.delete_by_tag("t0"))[0]
        yield (await storage.purge_deleted(0)), await storage.count_all_memories()
        yield found(await storage.retrieve(memory(7).content, 5))
        yield loader(storage.conn)
        await storage.close()
        storage = SqliteVecMemoryStorage(os.path.join(folder, "memory.db"))
        await storage.initialize()
        yield found(await storage.retrieve(memory(8).content, 100))
        # As an older version has left it: the program copies the table to one with a partition key.
        rows = storage.conn.execute("SELECT rowid, content_embedding FROM memory_embeddings").fetchall()
        storage.conn.execute("DROP TABLE memory_embeddings")
        columns = "content_embedding FLOAT[384] distance_metric=cosine"
        storage.conn.execute(f"CREATE VIRTUAL TABLE memory_embeddings USING vec0({columns})")
        storage.conn.executemany("INSERT INTO memory_embeddings(rowid, content_embedding) VALUES (?, ?)", rows)
        storage.conn.commit()
        await storage.close()
        storage = SqliteVecMemoryStorage(os.path.join(folder, "memory.db"))
        await storage.initialize()
        sql = "SELECT sql LIKE '%partition key%' FROM sqlite_master WHERE name = 'memory_embeddings'"
        yield [tuple(row) for row in storage.conn.execute(sql)]
        yield found(await storage.retrieve(memory(8).content, 100))
        await storage.close()

    async def all_of_them():
        return [step async for step in steps()]

    yield from asyncio.run(all_of_them())


def sqlite_utils_sqlite_vec(folder):
    """sqlite-utils with its plug-in for sqlite-vec, over the embeddings that llm has stored."""
    import llm
    import sqlite_utils
    from click.testing import CliRunner
    from sqlite_utils.cli import cli

    class Model(llm.EmbeddingModel):
        model_id = "hashed"

        def embed_batch(self, items):
            return [hashed(item) for item in items]

    path = os.path.join(folder, "embeddings.db")
    collection = llm.Collection("c", sqlite_utils.Database(path), model=Model())
    collection.embed_multi([(f"k{i}", f"text {i}") for i in range(50)], store=True)
    yield [entry.id for entry in collection.similar("text 9", 6)]

    def run(*arguments):
        ran = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.output

    nearest = "SELECT id, vec_distance_cosine(embedding, :q) AS d FROM embeddings ORDER BY d LIMIT 6"
    yield json.loads(run("query", path, nearest, "-p", "q", json.dumps(hashed("text 9"))))
    yield run("query", path, f"CREATE VIRTUAL TABLE v USING vec0(embedding float[{HASHED}])")
    yield run("query", path, "INSERT INTO v(rowid, embedding) SELECT rowid, embedding FROM embeddings")
    by_index = "SELECT id, distance FROM v JOIN embeddings e ON e.rowid = v.rowid WHERE v.embedding MATCH :q AND k = 6"
    yield json.loads(run("query", path, by_index, "-p", "q", json.dumps(hashed("text 9"))))
    yield json.loads(run("rows", path, "v", "--limit", "2", "-c", "rowid"))
    yield "warplite" if "warplite" in run("query", path, "SELECT vec_debug()") else "sqlite-vec"


PROGRAMS = (langchain_community, langgraph, mcp_memory_service, sqlite_utils_sqlite_vec)


def answers(program, loaded, folder):
    folder.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, program, loaded, folder], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-5 * max(1, abs(one))
    if isinstance(one, (list, dict)) and type(one) is type(other) and len(one) == len(other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        return all(same(a, b) for a, b in zip(one, other))
    return one == other


@pytest.mark.parametrize("program", [program.__name__ for program in PROGRAMS])
def test_answers_are_those_of_sqlite_vec(program, tmp_path):
    for needed in ("sqlite_vec", program):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    theirs = answers(program, "sqlite-vec", tmp_path / "theirs")
    ours = answers(program, "warplite", tmp_path / "ours")
    assert "sqlite-vec" in theirs and "warplite" in ours
    for one, other in zip(theirs, ours):
        assert same(one, other) or (one, other) == ("sqlite-vec", "warplite")
    assert len(theirs) == len(ours)


def test_a_file_of_sqlite_vec_goes_on_once_it_is_converted(tmp_path, monkeypatch):
    sqlite_vec = pytest.importorskip("sqlite_vec")
    community = pytest.importorskip("langchain_community.vectorstores")
    answers("langchain_community", "sqlite-vec", tmp_path / "theirs")
    path, embeddings = tmp_path / "theirs" / "langchain.db", langchain_embeddings()
    monkeypatch.setattr(sqlite_vec, "loadable_path", warplite.loadable_path)
    with pytest.raises(Exception, match="warp_import_vec0"):
        community.SQLiteVec("docs", None, embeddings, path).similarity_search("text 3", k=1)
    db = warplite.connect(path)
    assert tuple(db.execute("SELECT warp_import_vec0('docs_vec', 'docs_vec')").fetchone()) == (62,)
    db.close()
    store = community.SQLiteVec("docs", None, embeddings, path)
    assert store.add_texts(["new"]) == [63]
    assert [store.similarity_search(text, k=1)[0].page_content for text in ("new", "text 3")] == ["new", "text 3"]


def main(program, loaded, folder):
    import sqlite_vec

    if loaded == "warplite":
        sqlite_vec.loadable_path = warplite.loadable_path  # all that is changed
    [run] = [run for run in PROGRAMS if run.__name__ == program]
    print(json.dumps(list(run(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
