"""The vector store for LlamaIndex (which publishes no standard tests)."""

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex  # noqa: E402
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode  # noqa: E402
from llama_index.core.vector_stores import (  # noqa: E402
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)

from warplite.llama_index import WarpliteVectorStore  # noqa: E402


def nodes():
    return [
        TextNode(
            id_=f"n{i}",
            text=f"text {i}",
            embedding=[float(i), 1.0, float(i % 3)],
            metadata={"i": i, "venue": "AB"[i % 2], "tags": [f"t{i % 4}", "all"], **({"rare": "x"} if i == 3 else {})},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{i % 5}")},
        )
        for i in range(40)
    ]


@pytest.fixture(params=[None, {"i": "INTEGER", "venue": "TEXT"}])
def store(request):
    store = WarpliteVectorStore(columns=request.param)
    assert store.add(nodes()) == [f"n{i}" for i in range(40)]
    return store


def ask(store, filters=None, k=100, **options):
    result = store.query(VectorStoreQuery([3.0, 1.0, 0.0], similarity_top_k=k, filters=filters, **options))
    assert result.similarities == sorted(result.similarities, reverse=True)
    return result


def test_nodes_come_back_whole(store):
    result = ask(store, k=2)
    assert result.ids == ["n3", "n6"] and result.similarities[0] == pytest.approx(1)
    node = result.nodes[0]
    assert (node.text, node.ref_doc_id, node.metadata["tags"]) == ("text 3", "doc3", ["t3", "all"])
    assert node.metadata == nodes()[3].metadata


@pytest.mark.parametrize(
    "key, operator, value",
    [("venue", "==", "A"), ("venue", "!=", "A"), ("i", ">", 30), ("i", ">=", 30), ("i", "<", 5), ("i", "<=", 5),
     ("i", "in", [1, 2, 77]), ("i", "nin", [1, 2, 77]), ("tags", "contains", "t2"), ("tags", "any", ["t1", "t2"]),
     ("tags", "all", ["t1", "all"]), ("venue", "text_match", "A"), ("venue", "text_match_insensitive", "a"),
     ("rare", "is_empty", None)],
)  # fmt: skip
def test_every_operator_filters_as_their_own_store(store, key, operator, value):
    simple = SimpleVectorStore()
    simple.add(nodes())
    for condition in (FilterCondition.AND, FilterCondition.OR):
        rest = [MetadataFilter(key="i", value=33, operator="<")]
        filters = MetadataFilters(
            filters=[MetadataFilter(key=key, value=value, operator=operator), *rest], condition=condition
        )
        assert sorted(ask(store, filters).ids) == sorted(ask(simple, filters).ids)
    alone = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
    negated = MetadataFilters(filters=[alone], condition=FilterCondition.NOT)
    assert sorted(ask(store, alone).ids + ask(store, negated).ids) == sorted(node.id_ for node in nodes())
    assert sorted(n.node_id for n in store.get_nodes(filters=alone)) == sorted(ask(store, alone).ids)


def test_ids_and_documents_restrict(store):
    assert ask(store, node_ids=["n1", "n2"]).ids == ["n2", "n1"]
    assert set(ask(store, doc_ids=["doc1"]).ids) == {f"n{i}" for i in range(1, 40, 5)}
    store.delete("doc1")
    assert ask(store, doc_ids=["doc1"]).ids == []
    store.delete_nodes(["n2"])
    store.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="i", value=10, operator=">")]))
    store.delete_nodes()
    assert {n.node_id for n in store.get_nodes()} == {"n0", "n3", "n4", "n5", "n7", "n8", "n9", "n10"}
    store.add([TextNode(id_="n3", text="changed", embedding=[0.0, 0.0, 1.0])])
    assert [n.text for n in store.get_nodes(["n3"])] == ["changed"]
    store.clear()
    assert ask(store).ids == [] and store.get_nodes() == []


def test_in_an_index(tmp_path):
    store = WarpliteVectorStore(tmp_path / "a.db")
    documents = [Document(text=f"text {i}", id_=f"d{i}", metadata={"i": i}) for i in range(5)]
    embedding = MockEmbedding(embed_dim=4)
    context = StorageContext.from_defaults(vector_store=store)
    VectorStoreIndex.from_documents(documents, context, embed_model=embedding)
    index = VectorStoreIndex.from_vector_store(WarpliteVectorStore(tmp_path / "a.db"), embed_model=embedding)
    assert len(index.as_retriever(similarity_top_k=3).retrieve("text 2")) == 3
    index.delete_ref_doc("d2")
    assert {n.metadata["i"] for n in index.as_retriever(similarity_top_k=9).retrieve("text 2")} == {0, 1, 3, 4}
