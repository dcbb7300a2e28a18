"""LlamaIndex: a vector store in a SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ._conditions import Condition, joined
from ._documents import DocumentTable, storable


class WarpliteVectorStore(BasePydanticVectorStore):
    """Nodes in a warp table of a SQLite file, beside whatever else the file holds.

    database: a path, or an open connection with check_same_thread=False.
    table: made with the first nodes.
    distance, index: of the vectors, e.g. ``index="approximate"``; distance="cosine" where nothing is said.
    columns: keys of the metadata that become columns, e.g. ``{"year": "INTEGER"}``: filters by them come first.

    A table that is there says its own distance and columns. ValueError where it has others than are given here, and
    where it is no table of nodes.

    Every operator and condition of metadata filters is there, and finds what SimpleVectorStore finds; OR of no filters
    finds nothing. Similarities are 1 - distance under cosine, else -distance.
    """

    stores_text: bool = True

    _documents: DocumentTable = PrivateAttr()

    def __init__(
        self, database: Any = ":memory:", *, table: str = "nodes", distance: str | None = None,
        index: str | None = None, columns: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(stores_text=True)
        columns = {"ref_doc_id": "TEXT", **(columns or {})}
        self._documents = DocumentTable(database, table, distance, index, columns)

    @classmethod
    def class_name(cls) -> str:
        """Returns the name by which LlamaIndex knows the class."""
        return "WarpliteVectorStore"

    @property
    def client(self) -> Any:
        """The SQLite connection."""
        return self._documents.connection

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Inserts nodes with embeddings, or replaces those of the same ids; returns the ids.

        Raises ValueError for an infinity in the metadata.
        """
        for node in nodes:
            storable(node.metadata, node.node_id, others=True)  # of which pydantic makes JSON, with null for infinities
        self._documents.add(
            [node.node_id for node in nodes],
            [node.get_embedding() for node in nodes],
            [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes],
            [{**node_to_metadata_dict(node, remove_text=True), "ref_doc_id": node.ref_doc_id} for node in nodes],
        )
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Deletes the nodes of a document."""
        self._documents.delete(self._documents.among([ref_doc_id], "ref_doc_id"))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Deletes nodes by their ids, by filters, or by both; by neither, and by filters that name no key, none."""
        if node_ids is not None or (filters is not None and _names_a_key(filters)):
            self._documents.delete(self._chosen(node_ids, filters))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Returns nodes by their ids, by filters, or by both; by neither, all."""
        rows = self._documents.select(self._chosen(node_ids, filters))
        return [_node(content, metadata) for _, content, metadata in rows]

    def clear(self) -> None:
        """Deletes all nodes."""
        self._documents.drop()

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Returns the nodes nearest to the query's embedding. Raises ValueError for other modes than the default.

        An empty list of documents permits nothing. An empty list of nodes does not restrict, as LlamaIndex means it.
        """
        if query.mode != VectorStoreQueryMode.DEFAULT or query.query_embedding is None:
            raise ValueError(f"only queries by an embedding are answered, and mode default; this one is {query.mode}")
        # VectorStoreIndex gives [] for every store that keeps its texts.
        condition = self._chosen(query.node_ids or None, query.filters)
        if query.doc_ids is not None:
            condition = joined([condition, self._documents.among(query.doc_ids, "ref_doc_id")])
        hits = self._documents.search(query.query_embedding, query.similarity_top_k, condition)
        best = 1.0 if self._documents.distance == "cosine" else 0.0
        return VectorStoreQueryResult(
            nodes=[_node(content, metadata) for _, content, metadata, *_ in hits],
            similarities=[best - hit[3] for hit in hits],
            ids=[hit[0] for hit in hits],
        )

    def _chosen(self, node_ids: Sequence[str] | None, filters: MetadataFilters | None) -> Condition:
        conditions = [] if node_ids is None else [self._documents.among(node_ids)]
        if filters is not None:
            conditions.append(self._condition(filters))
        return joined(conditions)

    def _condition(self, filters: MetadataFilters) -> Condition:
        parts = [
            self._condition(part)
            if isinstance(part, MetadataFilters)
            else self._documents.compare(part.key, part.operator.value, part.value)
            for part in filters.filters
        ]
        return joined(parts, filters.condition.value.upper() if filters.condition else "AND")


def _names_a_key(filters: MetadataFilters) -> bool:
    return any(not isinstance(part, MetadataFilters) or _names_a_key(part) for part in filters.filters)


def _node(content: str | None, metadata: dict[str, Any]) -> BaseNode:
    node = metadata_dict_to_node(metadata)
    node.set_content(content)
    return node
