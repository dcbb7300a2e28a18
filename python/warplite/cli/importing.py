"""warplite import: a file's rows become a table's."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from .._files import Source, open_source
from .._rows import add, writing
from .._vectors import declaration, quoted, quoted_table
from . import main, needs, open_database

# Where an import has got to; the table is there only while one is unfinished.
_PROGRESS = """
CREATE TABLE IF NOT EXISTS warplite_imports(
  file TEXT, size INTEGER, modified INTEGER, target TEXT COLLATE NOCASE, rows INTEGER, PRIMARY KEY(file, target))
"""


@main.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("database")
@click.argument("table")
@click.option("--column", default="embedding", show_default=True, help="of a file that holds vectors alone")
@click.option("--id", "id_column", help="the file's column of integers that becomes the rowid")
@click.option(
    "--declare", multiple=True, metavar="COLUMN", help="of a new table, e.g. 'title TEXT index=words' instead of TEXT"
)
@click.option("--distance", help="of the vectors of a new table, e.g. cosine")
@click.option(
    "--restart", is_flag=True, help="begin with the file's first row, and leave what an ended import has brought"
)
@click.option("--batch", default=20_000, show_default=True, type=click.IntRange(1), help="rows of one transaction")
def import_(
    file: str, database: str, table: str, column: str, id_column: str | None, declare: tuple[str, ...],
    distance: str | None, restart: bool, batch: int,
) -> None:  # fmt: skip
    """Imports FILE into TABLE of DATABASE, both of which are made where they are missing.

    FILE: .npy .fbin .u8bin .i8bin .fvecs .bvecs .ivecs (vectors), .parquet, .csv (with a head), .jsonl. Lists of
    numbers are vectors, and so are JSON arrays in a CSV file. Rowids count on from the table's last, or from 0.
    Each batch is a transaction: an import that was ended goes on when the same command is given again, also after
    others have written rows. One that fails in its first batch leaves nothing.
    """
    if file.endswith(".parquet"):
        needs("pyarrow", "arrow")
    source = open_source(file, column)
    if source.rows == 0:
        raise click.ClickException(f"{file} holds no rows")
    if id_column is not None and id_column.lower() not in map(str.lower, source.columns):
        raise click.ClickException(f"the file has no column {id_column}; it has {', '.join(source.columns)}")
    db = open_database(database, must_exist=False)
    create = None
    if declaration(db, table) is None:
        columns = _declarations(source, id_column, declare, distance)
        create = f"CREATE VIRTUAL TABLE IF NOT EXISTS {quoted_table(db, table)} USING warp({columns})"
    elif declare or distance:
        raise click.ClickException(f"{table} is there already: --declare and --distance are for new tables")
    _Import(db, table, file, create, restart, numbered=id_column is None).run(source, batch)


def _declarations(source: Source, id_column: str | None, declare: tuple[str, ...], distance: str | None) -> str:
    given = {text.split()[0].strip('"').lower(): text for text in declare if text.strip()}
    parts = []
    for name, type_ in source.columns.items():
        stored = "+" if type_ == "BLOB" else ""  # along with the row: no filter compares them
        plain = f"{stored}{quoted(name)} {type_}" + (f" distance={distance}" if distance and "[" in type_ else "")
        if id_column is not None and name.lower() == id_column.lower():
            plain = f"{quoted(name)} INTEGER PRIMARY KEY"
        if name in source.unequal and name.lower() not in given:
            raise click.ClickException(f"{source.unequal[name]}; --declare '{name} TEXT' stores lists as texts")
        parts.append(given.pop(name.lower(), plain))
    if given:
        raise click.ClickException(f"the file has no column {', '.join(given)}; it has {', '.join(source.columns)}")
    return ", ".join(parts)


class _Import:
    """One file on its way into one table; what is done is kept beside, in the same transactions.

    `create` makes the table with the first rows; `numbered` rows count on from the table's last.
    """

    def __init__(self, db: Any, table: str, file: str, create: str | None, restart: bool, *, numbered: bool) -> None:
        status = os.stat(file)
        self.db, self.table, self.create, self.numbered = db, table, create, numbered
        self.key = (os.path.abspath(file), table)
        self.version = (status.st_size, status.st_mtime_ns)
        self.done = 0 if create or restart else self._done_before()

    def _done_before(self) -> int:
        """Returns how many rows an import that was ended has brought."""
        if declaration(self.db, "warplite_imports") is None:
            return 0
        sql = "SELECT size, modified, rows FROM warplite_imports WHERE file = ? AND target = ?"
        row = self.db.execute(sql, self.key).fetchone()
        if row is not None and tuple(row[:2]) != self.version:
            raise click.ClickException(
                f"{self.key[0]} has changed since {row[2]} of its rows were imported into {self.table}; "
                "--restart begins with its first row, and leaves those"
            )
        return int(row[2]) if row else 0

    def _next_rowid(self) -> int:
        last = self.db.execute(f"SELECT max(rowid) FROM {quoted_table(self.db, self.table)}").fetchone()[0]
        return 0 if last is None else int(last) + 1

    def run(self, source: Source, batch: int) -> None:
        if self.done:
            click.echo(f"going on after {self.done:,} rows")
        began, before = time.monotonic(), self.done
        bar: Any = click.progressbar(length=source.rows - self.done, label=f"into {self.table}", show_pos=True)
        with bar:
            for arrays in source.batches(self.done, batch):
                bar.update(self._insert_or_say_where(arrays))
        self._finish()
        rows, seconds = self.done - before, time.monotonic() - began
        click.echo(f"imported {rows:,} rows in {seconds:.1f} s")

    def _insert_or_say_where(self, arrays: dict[str, Any]) -> int:
        try:
            return self._insert(arrays)
        except Exception as error:
            rows = len(next(iter(arrays.values())))
            where = f"{self.key[0]}: of rows {self.done + 1:,} to {self.done + rows:,}"
            before = f"; the {self.done:,} before are in {self.table}" if self.done else ""
            raise click.ClickException(f"{where}: {error}{before}") from error

    def _insert(self, arrays: dict[str, Any]) -> int:
        """Inserts a batch and notes it, in one transaction."""
        rows = len(next(iter(arrays.values())))
        with writing(self.db):
            if self.create:
                self.db.execute(self.create)
            first = self._next_rowid() if self.numbered else 0
            add(self.db, self.table, range(first, first + rows) if self.numbered else None, **arrays)
            self.db.execute(_PROGRESS)
            self.db.execute(
                "REPLACE INTO warplite_imports(file, target, size, modified, rows) VALUES (?, ?, ?, ?, ?)",
                (*self.key, *self.version, self.done + rows),
            )
        self.done += rows
        return rows

    def _finish(self) -> None:
        with writing(self.db):
            self.db.execute("DELETE FROM warplite_imports WHERE file = ? AND target = ?", self.key)
            if self.db.execute("SELECT 1 FROM warplite_imports").fetchone() is None:
                self.db.execute("DROP TABLE warplite_imports")
