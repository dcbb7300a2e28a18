"""LangChain: a VectorStore in a SQLite file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from ._conditions import Condition, joined, listed_texts
from ._documents import DocumentTable

_OPERATORS = {
    "$eq": "==", "$ne": "!=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<=", "$in": "in", "$nin": "nin",
}  # fmt: skip

# What LangChain's retrievers give to every search, although not every one has a use for it.
_PASSED_ON = ("score_threshold", "fetch_k", "lambda_mult")


class WarpliteVectorStore(VectorStore):
    """Documents in a warp table of a SQLite file, beside whatever else the file holds.

    embedding: what makes vectors of texts.
    database: a path, or an open connection (with check_same_thread=False, where LangChain's asynchronous methods
        are used: they call from other threads).
    table: made with the first documents.
    distance, index: of the vectors, e.g. ``index="approximate"``; distance="cosine" where nothing is said.
    columns: keys of the metadata that become columns, e.g. ``{"year": "INTEGER"}``: filters by them come first.

    A table that is there says its own distance and columns. ValueError where it has others than are given here, and
    where it is no table of documents.

    A `filter` of the searches is a dict: ``{"venue": "ICDE", "year": {"$gte": 2020}}``, with $eq $ne $gt $gte $lt $lte
    $in $nin, and $and, $or over lists of such dicts, $not over one. A key that is missing is None. Numbers compare with
    numbers, texts with texts, dates as ISO texts. k documents come when k pass it. Scores are distances.
    """

    def __init__(
        self, embedding: Embeddings, database: Any = ":memory:", *, table: str = "documents",
        distance: str | None = None, index: str | None = None, columns: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._embedding = embedding
        self._documents = DocumentTable(database, table, distance, index, columns)

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self._embedding

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None,
        *, ids: Sequence[str | None] | None = None, **kwargs: Any,
    ) -> list[str]:  # fmt: skip
        """Embeds texts and inserts them, or replaces those of the same ids, in one transaction; returns the ids."""
        _refuse_unknown(kwargs, "batch_size")
        contents = list(texts)
        given = [None] * len(contents) if ids is None else listed_texts(ids, or_none=True)
        known = [{}] * len(contents) if metadatas is None else [metadata or {} for metadata in metadatas]
        if not len(given) == len(known) == len(contents):
            raise ValueError(f"{len(contents)} texts, {len(known)} metadatas, {len(given)} ids")
        names = [id_ or str(uuid.uuid4()) for id_ in given]
        self._documents.add(names, self._embedding.embed_documents(contents), contents, known)
        return names

    def delete(self, ids: Sequence[str] | None = None, *, filter: dict[str, Any] | None = None, **kwargs: Any) -> bool:
        """Deletes documents by their ids, by a filter, or by both; without either all of them.

        Ids that there are not do no harm. Raises ValueError for a filter without keys.
        """
        _refuse_unknown(kwargs)
        if filter is not None and not filter:
            raise ValueError("filter: without keys it would delete all; delete() does that")
        conditions = [self._condition(filter)]
        if ids is not None:
            conditions.append(self._documents.among(ids))
        self._documents.delete(joined(conditions))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the documents of those ids that there are, in their order."""
        found = {row[0]: _document(*row) for row in self._documents.select(self._documents.among(ids))}
        return [found[id_] for id_ in ids if id_ in found]

    def similarity_search(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Document]:
        """Returns the k documents nearest to a text."""
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter, **kwargs)

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Returns the k documents nearest to a text, with their distances: the smallest first."""
        _refuse_unknown(kwargs, *_PASSED_ON)
        hits = self._documents.search(self._embedding.embed_query(query), k, self._condition(filter))
        return [(_document(*hit[:3]), hit[3]) for hit in hits]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Document]:
        """Returns the k documents nearest to a vector."""
        _refuse_unknown(kwargs, *_PASSED_ON)
        return [_document(*hit[:3]) for hit in self._documents.search(embedding, k, self._condition(filter))]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Returns k of the fetch_k documents nearest to a text, near to it and unlike one another."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5,
        filter: dict[str, Any] | None = None, **kwargs: Any,
    ) -> list[Document]:  # fmt: skip
        """Returns k of the fetch_k documents nearest to a vector, near to it and unlike one another."""
        _refuse_unknown(kwargs, *_PASSED_ON)
        hits = self._documents.search(embedding, fetch_k, self._condition(filter))
        vectors = [np.frombuffer(hit[4], "<f4").tolist() for hit in hits]
        chosen = maximal_marginal_relevance(np.array(embedding, np.float32), vectors, lambda_mult, k) if hits else []
        return [_document(*hits[i][:3]) for i in chosen]

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None,
        *, ids: list[str] | None = None, **kwargs: Any,
    ) -> WarpliteVectorStore:  # fmt: skip
        """Returns a store that holds the texts; `kwargs` are the constructor's."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        try:
            return {
                "cosine": self._cosine_relevance_score_fn,
                "l2": self._euclidean_relevance_score_fn,
                "ip": self._max_inner_product_relevance_score_fn,
            }[self._documents.distance]
        except KeyError:
            raise ValueError(f"relevance scores are not defined for distance={self._documents.distance}") from None

    def _condition(self, filter_: dict[str, Any] | None) -> Condition:
        return ("1", []) if filter_ is None else self._all_of(filter_)

    def _all_of(self, filter_: dict[str, Any]) -> Condition:
        _expect(dict, filter_, "expected a dict of keys and values")
        return joined([self._part(key, value) for key, value in filter_.items()])

    def _part(self, key: str, value: Any) -> Condition:
        if key == "$not":
            return joined([self._all_of(value)], "NOT")
        if key in ("$and", "$or"):
            _expect((list, tuple), value, f"{key} takes a list of filters")
            return joined([self._all_of(part) for part in value], key[1:].upper())
        if key.startswith("$"):
            raise ValueError(f"filter: {key} is neither a key of the metadata nor one of $and, $or, $not")
        operands = value if isinstance(value, dict) else {"$eq": value}
        if not operands or not operands.keys() <= _OPERATORS.keys():
            raise ValueError(f"filter: {key}: expected operators of {', '.join(_OPERATORS)}; got {value!r}")
        return joined([self._documents.compare(key, _OPERATORS[name], operand) for name, operand in operands.items()])


def _refuse_unknown(kwargs: dict[str, Any], *known: str) -> None:
    """Raises TypeError for an argument that would change nothing: a filter by another name passed everything."""
    for name in kwargs.keys() - set(known):
        raise TypeError(f"unexpected keyword argument {name!r}")


def _expect(types: Any, value: Any, expected: str) -> None:
    if not isinstance(value, types):
        raise ValueError(f"filter: {expected}, got {value!r}")


def _document(id_: str, content: str | None, metadata: dict[str, Any]) -> Document:
    return Document(id=id_, page_content=content or "", metadata=metadata)
