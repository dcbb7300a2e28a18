"""The vector store for LangChain: that project's own standard tests, and what they do not ask."""

import re

import numpy as np
import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langchain_tests.integration_tests import VectorStoreIntegrationTests  # noqa: E402

from warplite.langchain import WarpliteVectorStore  # noqa: E402


class TestInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        return WarpliteVectorStore(self.get_embeddings())


class TestInFile(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        return WarpliteVectorStore(self.get_embeddings(), tmp_path / "a.db", index="ivfflat", columns={"kind": "TEXT"})


def store(**options):
    texts = [f"text {i}" for i in range(200)]
    metadatas = [{"i": i, "venue": "AB"[i % 2], "tags": ["x", i]} for i in range(200)]
    return WarpliteVectorStore.from_texts(texts, DeterministicFakeEmbedding(size=16), metadatas, **options)


@pytest.mark.parametrize("columns", [None, {"i": "INTEGER", "venue": "TEXT"}])
def test_filters_leave_k_documents(columns):
    documents = store(columns=columns)
    for filter_, wanted in (
        ({"venue": "A"}, lambda m: m["venue"] == "A"),
        ({"i": {"$gte": 10, "$lt": 30}}, lambda m: 10 <= m["i"] < 30),
        ({"i": {"$in": [3, 5, 7]}}, lambda m: m["i"] in (3, 5, 7)),
        ({"i": {"$nin": list(range(150))}, "venue": {"$ne": "A"}}, lambda m: m["i"] >= 150 and m["venue"] != "A"),
        ({"$or": [{"i": 3}, {"venue": "B", "i": {"$gt": 190}}]}, lambda m: m["i"] in (3, 191, 193, 195, 197, 199)),
        ({"$and": [{"i": {"$lte": 5}}, {"venue": {"$eq": "B"}}]}, lambda m: m["i"] in (1, 3, 5)),
        ({"gone": None}, lambda m: True),
    ):
        if columns and "gone" in filter_:
            continue
        found = documents.similarity_search_with_score("text 3", k=200, filter=filter_)
        assert sorted(d.metadata["i"] for d, _ in found) == [
            i for i in range(200) if wanted(dict(i=i, venue="AB"[i % 2]))
        ]
        assert [score for _, score in found] == sorted(score for _, score in found)
    for wrong in ({"i": {"$near": 3}}, {"$not": []}):
        with pytest.raises(ValueError, match="filter"):
            documents.similarity_search("x", filter=wrong)


def found_by(documents, filter_):
    return "".join(sorted(d.id for d in documents.similarity_search("a", 99, filter=filter_)))


@pytest.mark.parametrize("columns", [None, {"tenant": "TEXT"}])
def test_missing_keys_are_none(db, columns):
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4), db, columns=columns)
    documents.add_texts("abcd", [{"tenant": "x"}, {"tenant": "y"}, {}, {"tenant": None}], ids=list("abcd"))
    for operators, ids in (
        ({"$eq": "x"}, "a"), ({"$in": ["x"]}, "a"), ({"$ne": "x"}, "bcd"), ({"$nin": ["x"]}, "bcd"),
        ({"$eq": None}, "cd"), ({"$in": [None]}, "cd"), ({"$ne": None}, "ab"), ({"$nin": [None]}, "ab"),
        ({"$in": ["x", None]}, "acd"), ({"$nin": ["x", None]}, "b"), ({"$in": []}, ""), ({"$nin": []}, "abcd"),
    ):  # fmt: skip
        assert found_by(documents, {"tenant": operators}) == ids, operators
        rest = "".join(sorted(set("abcd") - set(ids)))
        assert found_by(documents, {"$not": {"tenant": operators}}) == rest, operators


def test_filters_of_nothing_and_wrong_ones():
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4))
    documents.add_texts("ab", [{"tenant": "x"}, {"tenant": "y"}], ids=list("ab"))
    for filter_, ids in (
        (None, "ab"), ({}, "ab"), ({"$and": []}, "ab"), ({"$or": []}, ""), ({"$not": {}}, ""),
        ({"$not": {"$or": []}}, "ab"), ({"$or": [{"tenant": "x"}, {"$or": []}]}, "a"),
        ({"$not": {"tenant": "x", "gone": None}}, "b"),
    ):  # fmt: skip
        assert found_by(documents, filter_) == ids, filter_
    for filter_, why in (
        ({"tenant": {}}, "tenant: expected operators of .eq, "),
        ({"tenant": {"$near": 1}}, "tenant: expected operators of .eq, .*near"),
        ({"tenant": {"$in": "xy"}}, "tenant: in takes a list, not 'xy'"),
        ({"tenant": ["x"]}, "tenant: == compares numbers and texts, not ..x"),
        ({"$not": {"$eq": "x"}}, "[$]eq is neither .* nor one of .and, .or, .not"),
        ({"$nor": []}, "[$]nor is neither"),
        ({"$or": {"tenant": "x"}}, "[$]or takes a list of filters"),
        ({"$and": ["tenant"]}, "expected a dict .* got 'tenant'"),
        ([], "expected a dict"),
    ):
        with pytest.raises(ValueError, match=f"filter: {why}"):
            found_by(documents, filter_)


def test_any_key_is_found(db):
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4), db)
    keys = ['a"b', '"', "b\\c", "\\", "é", "\U0001f600", "", "a.b", "a[0]", "\n", "a'b", "plain"]
    ids = "abcdefghijkl"
    documents.add_texts(keys, [{key: "v"} for key in keys], ids=list(ids))
    for key, id_ in zip(keys, ids):
        for operators in ("v", {"$in": ["v"]}, {"$ne": None}, {"$gt": "u"}):
            assert found_by(documents, {key: operators}) == id_, key
        assert found_by(documents, {key: "w"}) == ""


def test_numbers_that_json_has_not(db):
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4), db, columns={"price": "REAL"})
    nan = float("nan")
    metadatas = [{"score": nan, "price": nan, "deep": [{"x": nan}, 1.5]}, {"score": np.float32(2), "price": 1.0}]
    documents.add_texts("ab", metadatas, ids=list("ab"))
    for key in ("score", "price", "gone"):
        assert found_by(documents, {key: None}) == ("ab" if key == "gone" else "a")
    assert found_by(documents, {"score": {"$gt": 1}}) == "b"
    assert documents.get_by_ids(["a"])[0].metadata == {"score": None, "price": None, "deep": [{"x": None}, 1.5]}
    assert metadatas[0]["score"] is nan  # what was given stays
    for wrong, where in (({"s": float("inf")}, "['s']"), ({"s": {"t": [0, -float("inf")]}}, "['s']['t'][1]")):
        with pytest.raises(ValueError, match=re.escape(f"document 'c': metadata{where}: a finite number")):
            documents.add_texts("xc", [{}, wrong], ids=["x", "c"])
    assert found_by(documents, None) == "ab"


def test_what_pandas_writes_for_missing_values():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"n": pd.array([1, None], "Int64"), "day": [pd.NaT, pd.NaT], "x": [0.5, None]})
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4))
    documents.add_texts("ab", frame.to_dict("records"), ids=list("ab"))
    assert documents.get_by_ids(["a"])[0].metadata == {"n": 1, "day": None, "x": 0.5}
    assert found_by(documents, {"n": None, "x": None}) == "b"


def test_scores_and_diversity():
    documents = store()
    assert documents.similarity_search_with_score("text 9", k=1)[0][1] == pytest.approx(0, abs=1e-7)
    assert documents.similarity_search_with_relevance_scores("text 9", k=1)[0][1] == pytest.approx(1)
    chosen = documents.max_marginal_relevance_search("text 9", k=5, fetch_k=50, filter={"venue": "B"})
    assert len(chosen) == 5 and chosen[0].page_content == "text 9"
    retriever = documents.as_retriever(search_kwargs={"k": 2, "filter": {"venue": "A"}})
    assert [d.metadata["venue"] for d in retriever.invoke("text 9")] == ["A", "A"]


def test_unknown_arguments_are_refused():
    documents = store()
    vector = DeterministicFakeEmbedding(size=16).embed_query("text 9")
    passed_on = {"score_threshold": 0.5, "fetch_k": 9, "lambda_mult": 0.5}
    for call, given in (
        (documents.similarity_search, "text 9"),
        (documents.similarity_search_with_score, "text 9"),
        (documents.similarity_search_with_relevance_scores, "text 9"),
        (documents.similarity_search_by_vector, vector),
        (documents.max_marginal_relevance_search, "text 9"),
        (documents.max_marginal_relevance_search_by_vector, vector),
        (documents.delete, ["text 9"]),
        (documents.add_texts, ["new"]),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument 'where'"):
            call(given, where={"venue": "A"})
        if call not in (documents.delete, documents.add_texts):
            call(given, k=2, filter={"venue": "B"}, **passed_on)
    documents.add_documents([Document("new")], batch_size=10)  # as LangChain's indexing gives it
    assert len(documents.similarity_search("x", k=1000)) == 201


def test_delete_by_filter():
    documents = WarpliteVectorStore(DeterministicFakeEmbedding(size=4))
    documents.add_texts("abcd", [{"y": 1}, {"y": 1}, {"y": 2}, {"y": 2}], ids=list("abcd"))
    assert documents.delete(["a", "c"], filter={"y": 1})
    assert found_by(documents, None) == "bcd"
    with pytest.raises(ValueError, match="without keys it would delete all"):
        documents.delete(filter={})
    for call in (documents.delete, documents.get_by_ids):
        with pytest.raises(ValueError, match="ids: a list of texts was expected, got 'b'"):
            call("b")
    documents.delete(filter={"y": {"$gt": 1}})
    assert found_by(documents, None) == "b"


def test_as_many_embeddings_metadatas_and_ids_as_texts():
    class Forgetful(DeterministicFakeEmbedding):
        def embed_documents(self, texts):
            return super().embed_documents(texts)[1:]

    documents = WarpliteVectorStore(Forgetful(size=4))
    with pytest.raises(ValueError, match="3 ids, 2 embeddings"):
        documents.add_texts("abc", ids=list("abc"))
    for wrong in ({"metadatas": []}, {"metadatas": iter([{}])}, {"ids": ["a"]}):
        with pytest.raises(ValueError, match="3 texts, "):
            documents.add_texts("abc", **wrong)
    with pytest.raises(ValueError, match="ids: a list of texts was expected, got among them 5"):
        documents.add_texts("ab", ids=[None, 5])
    assert documents.similarity_search("a") == []


def test_table_is_found_again_and_all_are_deleted(tmp_path):
    documents = store(database=tmp_path / "a.db")
    other = WarpliteVectorStore(DeterministicFakeEmbedding(size=16), tmp_path / "a.db")
    assert other.similarity_search("text 9", k=1)[0].page_content == "text 9"
    other.add_documents([Document(page_content="new", id="n", metadata={})])
    assert documents.get_by_ids(["n"])[0].page_content == "new"
    documents.delete()
    assert other.similarity_search("new") == []
    with pytest.raises(ValueError, match="2 texts, 1 metadatas"):
        other.add_texts(["a", "b"], [{}])
