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


def of_values(values):
    return [TextNode(id_=str(i), embedding=[1.0, 2.0], metadata=m) for i, m in enumerate(values)]


def filters_of(*filters, condition=FilterCondition.AND):
    made = [MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in filters]
    return MetadataFilters(filters=made, condition=condition)


def ids_by(store, filters):
    return sorted(store.query(VectorStoreQuery([1.0, 2.0], similarity_top_k=99, filters=filters)).ids)


@pytest.mark.parametrize(
    "key, operator, value",
    [("s", operator, value) for operator in ("contains", "text_match") for value in ("x", "Ä", "", "STRASSE")]
    + [("s", "text_match_insensitive", value) for value in ("ä", "ÄX", "", "Hello", "éà")]
    + [("l", operator, value) for operator in ("any", "all") for value in (["x", "Ä"], ["x"], ["q", "x"], [], [1])]
    + [("l", "contains", value) for value in ("x", 1, 1.0, "1", "")]
    + [("s", operator, value) for operator in ("any", "all") for value in (["x", "Ä"], ["x", "q"], [], [""])]
    + [("s", operator, ["x"]) for operator in ("in", "nin")] + [("d", "contains", "x"), ("d", "any", ["x", "z"])]
    + [("gone", operator, ["x"]) for operator in ("in", "nin", "any", "all")]
    + [("gone", operator, "x") for operator in ("==", "!=", "contains", "text_match", "text_match_insensitive")],
)  # fmt: skip
def test_lists_texts_and_missing_keys_as_their_own_store(db, key, operator, value):
    texts = ["x", "Äx", "ä", "äX straße", "", "Hello WORLD ÉÀ", "q"]
    lists = [[], ["x"], ["Ä", "x"], [1, "x"], [1.0], ["1"], ["xx"]]
    made = of_values(
        [{"s": text} for text in texts] + [{"l": list_} for list_ in lists] + [{}, {"d": {"x": "z"}}, {"d": {"z": 1}}]
    )
    store, simple = WarpliteVectorStore(db), SimpleVectorStore()
    store.add(made)
    simple.add(made)
    for condition in FilterCondition:
        filters = filters_of((key, operator, value), condition=condition)
        assert ids_by(store, filters) == ids_by(simple, filters)


def test_not_means_none_of_them(store):
    simple = SimpleVectorStore()
    simple.add(nodes())
    filters = filters_of(("venue", "==", "A"), ("i", "<", 9), ("rare", "==", "x"), condition=FilterCondition.NOT)
    assert sorted(ask(store, filters).ids) == sorted(ask(simple, filters).ids) != []
    nested = MetadataFilters(filters=[filters], condition=FilterCondition.NOT)
    assert sorted(ask(store, nested).ids + ask(store, filters).ids) == sorted(n.id_ for n in nodes())


def test_case_is_folded(db):
    store = WarpliteVectorStore(db)
    store.add(of_values([{"s": "Hello WORLD ÉÀ"}, {"s": "Straße"}, {"s": 7}]))
    running = db.execute("VALUES (1), (2)")
    next(iter(running))
    again = WarpliteVectorStore(db)  # while a statement runs on the connection
    for value, ids in (("world éà", ["0"]), ("STRASSE", ["1"]), ("éè", [])):
        assert ids_by(again, filters_of(("s", "text_match_insensitive", value))) == ids
    assert ids_by(again, filters_of(("s", "text_match", "éà"))) == []


def test_filters_of_nothing(store):
    everything = sorted(n.id_ for n in nodes())
    for condition, ids in ((None, everything), ("and", everything), ("or", []), ("not", everything)):
        nothing = MetadataFilters(filters=[], condition=condition)
        assert sorted(ask(store, nothing).ids) == ids
        nested = MetadataFilters(filters=[nothing], condition=condition)
        for filters in (nothing, nested):
            store.delete_nodes(filters=filters)
            assert len(store.get_nodes()) == 40
    store.delete_nodes(["n1"], filters=MetadataFilters(filters=[]))
    assert len(store.get_nodes()) == 39


def test_wrong_filters_and_numbers_are_named(store):
    for operator in ("in", "nin", "any", "all"):
        with pytest.raises(ValueError, match=f"venue: {operator} takes a list, not 'AB'"):
            ask(store, filters_of(("venue", operator, "AB")))
    with pytest.raises(ValueError, match="document 'x': metadata.'score'.: .* got inf"):
        store.add([TextNode(id_="x", embedding=[1.0, 2.0, 3.0], metadata={"score": float("inf")})])
    store.add([TextNode(id_="x", embedding=[1.0, 2.0, 3.0], metadata={"score": float("nan")})])
    assert "x" in ask(store, filters_of(("score", "is_empty", None))).ids


def test_ids_and_documents_restrict(store):
    assert ask(store, node_ids=["n1", "n2"]).ids == ["n2", "n1"]
    assert ask(store, doc_ids=[]).ids == [] and store.get_nodes([]) == []
    assert len(ask(store, node_ids=[]).ids) == 40  # what VectorStoreIndex gives
    store.delete_nodes([])
    assert len(store.get_nodes()) == 40
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
