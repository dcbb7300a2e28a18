"""LLM: collections of embeddings whose nearest entries are found by the extension.

`llm nearest COLLECTION …` answers as `llm similar` does; `Collection` is llm.Collection with that search.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click
import llm
import sqlite_utils
from llm.embeddings import Entry

from ._loading import load
from ._rows import writing
from ._vectors import quoted, vector_columns


class Collection(llm.Collection):
    """A collection that keeps a warp table beside its embeddings, and brings it up to date before a search."""

    def similar_by_vector(
        self, vector: list[float], number: int = 10, skip_id: str | None = None, prefix: str | None = None
    ) -> list[Entry]:
        """Returns the nearest entries, as llm.Collection does: by cosine similarity, the most similar first."""
        load(self.db.conn)
        table = self._indexed(len(vector))
        rows = self.db.query(
            f"""
            SELECT e.id, 1 - n.distance AS score, e.content, e.metadata
            FROM {table} n JOIN embeddings e ON e.rowid = n.rowid
            WHERE n.embedding MATCH :vector AND n.id IS NOT :skip AND substr(n.id, 1, length(:prefix)) = :prefix
            ORDER BY n.distance LIMIT :number
            """,
            {"vector": llm.encode(vector), "skip": skip_id, "prefix": prefix or "", "number": number},
        )
        return [
            Entry(
                id=row["id"],
                score=row["score"],
                content=row["content"],
                metadata=json.loads(row["metadata"]) if row["metadata"] else None,
            )
            for row in rows
        ]

    def _indexed(self, dim: int) -> str:
        """Returns the warp table, which holds what the collection holds now."""
        table = quoted(f"warplite_{self.id}")
        with writing(self.db.conn):
            known = self.db[f"warplite_{self.id}"].exists()
            if known and vector_columns(self.db.conn, f"warplite_{self.id}")["embedding"].dim != dim:
                self.db.execute(f"DROP TABLE {table}")  # the collection was made anew with another model
                known = False
            if not known:
                self.db.execute(
                    f"CREATE VIRTUAL TABLE {table} USING warp(embedding FLOAT[{dim}] distance=cosine, id TEXT)"
                )
            self.db.execute(
                f"""
                DELETE FROM {table} WHERE NOT EXISTS (
                  SELECT 1 FROM embeddings e WHERE e.rowid = {table}.rowid AND e.collection_id = ?
                    AND e.id = {table}.id AND e.embedding = {table}.embedding)
                """,
                [self.id],
            )
            self.db.execute(
                f"""
                INSERT INTO {table}(rowid, embedding, id) SELECT rowid, embedding, id FROM embeddings
                WHERE collection_id = ? AND rowid NOT IN (SELECT rowid FROM {table})
                """,
                [self.id],
            )
        return table

    def delete(self) -> None:
        """Deletes the collection, its embeddings and the warp table."""
        load(self.db.conn)
        self.db.execute(f"DROP TABLE IF EXISTS {quoted(f'warplite_{self.id}')}")
        super().delete()  # type: ignore[no-untyped-call]


@llm.hookimpl
def register_commands(cli: Any) -> None:
    """Adds `llm nearest`."""

    @cli.command()  # type: ignore[untyped-decorator]
    @click.argument("collection")
    @click.argument("id", required=False)
    @click.option("-c", "--content", help="Content to embed for comparison")
    @click.option("-n", "--number", type=int, default=10, help="Number of results to return")
    @click.option("-d", "--database", type=click.Path(exists=True, dir_okay=False), envvar="LLM_EMBEDDINGS_DB")
    @click.option("--prefix", help="Just IDs with this prefix", default="")
    def nearest(
        collection: str, id: str | None, content: str | None, number: int, database: str | None, prefix: str
    ) -> None:
        """The entries of COLLECTION most similar to the one with ID, or to some content, by warplite.

        JSON lines, as of `llm similar`.
        """
        if (id is None) == (content is None):
            raise click.UsageError("give an ID or --content")
        db = sqlite_utils.Database(database or llm.user_dir() / "embeddings.db")
        try:
            entries = Collection(collection, db, create=False)
            if id is not None:
                found = entries.similar_by_id(id, number, prefix=prefix)
            else:
                found = entries.similar(content or "", number, prefix=prefix)
        except llm.Collection.DoesNotExist as error:
            raise click.ClickException(f"no such collection or ID: {error or collection}") from error
        for entry in found:
            click.echo(json.dumps(asdict(entry)))
