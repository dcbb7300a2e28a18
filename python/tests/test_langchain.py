"""The vector store for LangChain: that project's own standard tests, and what they do not ask."""

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


def test_scores_and_diversity():
    documents = store()
    assert documents.similarity_search_with_score("text 9", k=1)[0][1] == pytest.approx(0, abs=1e-7)
    assert documents.similarity_search_with_relevance_scores("text 9", k=1)[0][1] == pytest.approx(1)
    chosen = documents.max_marginal_relevance_search("text 9", k=5, fetch_k=50, filter={"venue": "B"})
    assert len(chosen) == 5 and chosen[0].page_content == "text 9"
    retriever = documents.as_retriever(search_kwargs={"k": 2, "filter": {"venue": "A"}})
    assert [d.metadata["venue"] for d in retriever.invoke("text 9")] == ["A", "A"]


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
