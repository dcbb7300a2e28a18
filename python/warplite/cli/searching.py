"""warplite search: the nearest rows, for a person or as JSON lines."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from .._files import open_source
from .._search import search as search_arrays
from .._vectors import as_array, first_missing, quoted, quoted_table, table_columns, vector_columns
from . import main, needs, open_database, print_table


@main.command()
@click.argument("database")
@click.argument("table")
@click.argument("column")
@click.argument("query", required=False)
@click.option("--row", type=int, help="the row with this rowid instead of QUERY")
@click.option("--file", "file", type=click.Path(exists=True), help="a file of vectors instead of QUERY, as one batch")
@click.option("-k", default=10, show_default=True, type=click.IntRange(1), help="rows")
@click.option("--where", metavar="SQL", help="a filter over the table's columns, e.g. 'year >= 2020'")
@click.option("--option", multiple=True, metavar="KEY=VALUE", help="with --file: of warp_knn_arrays, e.g. nprobe=32")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line")
def search(
    database: str, table: str, column: str, query: str | None, row: int | None, file: str | None, k: int,
    where: str | None, option: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """The rows of TABLE whose COLUMN is nearest to QUERY: a vector as JSON text, or a text."""
    if sum(given is not None for given in (query, row, file)) != 1:
        raise click.UsageError("give one of QUERY, --row and --file")
    if (where and file) or (option and not file):
        raise click.UsageError("--where is for one query, --option for --file")
    db = open_database(database)
    if file:
        _search_file(db, table, column, file, k, dict(_parsed_option(text) for text in option))
        return
    value: Any = query
    name = quoted_table(db, table)
    searched = f"{name}.{quoted(column)}"
    if row is not None:
        found = db.execute(f"SELECT {searched} FROM {name} WHERE rowid = ?", (row,)).fetchone()
        if found is None or found[0] is None:
            raise click.ClickException(f"{table} has no row {row} with a value in {column}")
        value = found[0]
    vectors = vector_columns(db, table)
    shown = [name for name in table_columns(db, table) if name.lower() not in vectors]
    selected = ", ".join(["rowid", "distance", *map(quoted, shown)])
    filter_ = f" AND ({where})" if where else ""
    rows = db.execute(
        f"SELECT {selected} FROM {name} WHERE {searched} MATCH ?{filter_} ORDER BY distance LIMIT ?",
        (value, k),
    ).fetchall()
    _show(["rowid", "distance", *shown], rows, as_json)


def _show(head: list[str], rows: list[Any], as_json: bool) -> None:
    if as_json:
        for row in rows:
            cells = (cell.hex() if isinstance(cell, bytes) else cell for cell in row)
            click.echo(json.dumps(dict(zip(head, cells)), ensure_ascii=False))
        return
    print_table(head, [[_text(cell) for cell in row] for row in rows])


def _text(cell: Any) -> str:
    """Returns what fits into a cell of a table on a screen."""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, bytes):
        return f"{len(cell)} bytes"
    text = "" if cell is None else " ".join(str(cell).split())
    return text if len(text) <= 60 else text[:59] + "…"


def _parsed_option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--option takes KEY=VALUE, not {text}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _search_file(db: Any, table: str, column: str, file: str, k: int, options: dict[str, Any]) -> None:
    """Writes JSON lines, one for each hit."""
    if file.endswith(".parquet"):
        needs("pyarrow", "arrow")
    source = open_source(file, column)
    if column not in source.columns:
        raise click.ClickException(f"{file} has no column {column}; it has {', '.join(source.columns)}")
    first = 0
    for arrays in source.batches(0, 10_000):
        queries = arrays[column]
        if isinstance(queries, list):  # JSON texts
            queries = [None if text is None else json.loads(text) for text in queries]
        queries = as_array(queries)
        missing = first_missing(queries)
        if missing is not None:
            raise click.ClickException(f"{file}, row {first + missing + 1}: a vector was expected, got none")
        rowids, distances = search_arrays(db, table, column, queries, k, **options)
        for number, (ids, far) in enumerate(zip(rowids.tolist(), distances.tolist()), first):
            for rank, (rowid, distance) in enumerate(zip(ids, far), 1):
                if distance == distance:
                    hit = {"query": number, "rank": rank, "rowid": rowid, "distance": distance}
                    sys.stdout.write(json.dumps(hit) + "\n")
        first += len(rowids)
