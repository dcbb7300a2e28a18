"""warplite export: a table's rows become a file's."""

from __future__ import annotations

import csv
import json
import os
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from .._rows import transaction
from .._vectors import VectorType, decode, quoted, quoted_table, table_columns, vector_columns
from . import main, needs, open_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: By their names, what columns hold: vectors, or values of a declared type.
    Columns = dict[str, VectorType | str]

_BATCH = 10_000  # rows in memory


@main.command()
@click.argument("database")
@click.argument("table")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--column", "chosen", multiple=True, help="of the file, once for each; all where none is named")
@click.option("--where", metavar="SQL", help="a filter over the table's columns, e.g. 'year >= 2020'")
@click.option("--rowid", is_flag=True, help="as a column of the file, too")
def export(database: str, table: str, file: str, chosen: tuple[str, ...], where: str | None, rowid: bool) -> None:
    """Writes the rows of TABLE to FILE, by rowid: .npy (one column of vectors), .parquet, .csv or .jsonl.

    Vectors are lists of numbers, sparse ones JSON objects, and BLOBs bytes in .parquet, else hexadecimal texts.
    """
    suffix = os.path.splitext(file)[1]
    if suffix not in _WRITERS:
        raise click.ClickException(f"{file}: files of {' '.join(_WRITERS)} can be written")
    if suffix == ".parquet":
        needs("pyarrow", "arrow")
    db = open_database(database)
    columns = _columns(db, table, chosen, rowid)
    if suffix == ".npy":
        columns = _vectors_alone(columns)
    source = quoted_table(db, table) + (f" WHERE {where}" if where else "")
    with transaction(db), _whole_or_none(file) as path:
        rows = db.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
        selected = ", ".join(f"{quoted_table(db, table)}.{quoted(name)}" for name in columns)
        found = iter(db.execute(f"SELECT {selected} FROM {source} ORDER BY rowid"))
        bar: Any = click.progressbar(length=rows, label=f"into {file}", show_pos=True)
        with bar:
            _WRITERS[suffix](path, columns, rows, _batches(found, bar.update))
    click.echo(f"exported {rows:,} rows")


def _columns(db: Any, table: str, chosen: tuple[str, ...], rowid: bool) -> Columns:
    vectors = vector_columns(db, table)
    there: Columns = {name: vectors.get(name.lower(), type_) for name, type_ in table_columns(db, table).items()}
    by_name = {name.lower(): name for name in there}
    gone = [name for name in chosen if name.lower() not in by_name]
    if gone:
        raise click.ClickException(f"{table} has no column {', '.join(gone)}; it has {', '.join(there)}")
    names = [by_name[name.lower()] for name in chosen] or list(there)
    return {**({"rowid": "INTEGER"} if rowid else {}), **{name: there[name] for name in names}}


def _vectors_alone(columns: Columns) -> Columns:
    """Returns the only column of vectors that an array can hold. Raises ClickException where it is not one."""
    vectors = {name: type_ for name, type_ in columns.items() if isinstance(type_, VectorType)}
    if len(vectors) != 1 or any(type_.kind == "sparse" for type_ in vectors.values()):
        raise click.ClickException(
            f".npy takes one column of vectors, not {', '.join(vectors) or 'none'}: see --column"
        )
    return {**vectors}


@contextmanager
def _whole_or_none(file: str) -> Iterator[str]:
    """Gives a path beside the file, which takes the file's place at the end."""
    path = file + ".part"
    try:
        yield path
        os.replace(path, file)
    finally:
        if os.path.exists(path):
            os.remove(path)


def _batches(rows: Iterator[tuple[Any, ...]], count: Callable[[int], None]) -> Iterator[list[tuple[Any, ...]]]:
    while batch := list(islice(rows, _BATCH)):
        yield batch
        count(len(batch))


def _write_npy(path: str, columns: Columns, rows: int, batches: Iterator[list[tuple[Any, ...]]]) -> None:
    import numpy as np

    [(name, type_)] = columns.items()
    assert isinstance(type_, VectorType)
    array: Any = None
    first = 0
    for batch in batches:
        if (None,) in batch:
            where = f"row {first + batch.index((None,)) + 1} of {rows:,}"
            raise click.ClickException(f"{where} has no vector in {name}; --where '{name} IS NOT NULL' leaves it out")
        vectors = np.stack([decode(cell, type_) for (cell,) in batch])
        if array is None:
            array = np.lib.format.open_memmap(path, "w+", vectors.dtype, (rows, type_.dim))
        array[first : first + len(batch)] = vectors
        first += len(batch)
    if array is None:
        with open(path, "wb") as file:
            np.save(file, np.empty((0, type_.dim), decode(b"", type_).dtype))


def _write_csv(path: str, columns: Columns, rows: int, batches: Iterator[list[tuple[Any, ...]]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for batch in batches:
            writer.writerows([_text(cell, type_) for cell, type_ in zip(row, columns.values())] for row in batch)


def _write_json_lines(path: str, columns: Columns, rows: int, batches: Iterator[list[tuple[Any, ...]]]) -> None:
    heads = [json.dumps(name, ensure_ascii=False) + ": " for name in columns]
    with open(path, "w", encoding="utf-8") as file:
        for batch in batches:
            for row in batch:
                cells = (head + _json(cell, type_) for head, cell, type_ in zip(heads, row, columns.values()))
                file.write("{" + ", ".join(cells) + "}\n")


def _json(cell: Any, type_: VectorType | str) -> str:
    if cell is not None and isinstance(type_, VectorType):
        return str(_text(cell, type_))
    if cell is not None and type_ == "BOOLEAN":
        cell = bool(cell)
    return json.dumps(_text(cell, type_), ensure_ascii=False)


def _text(cell: Any, type_: VectorType | str) -> Any:
    """Returns a vector as JSON, the shortest that is read as the same, and a BLOB in hexadecimal digits."""
    if not isinstance(cell, bytes):
        return cell
    if not isinstance(type_, VectorType):
        return cell.hex()
    if type_.kind == "sparse":
        import numpy as np

        pairs = np.frombuffer(cell, [("index", "<u4"), ("value", "<f4")])
        return "{" + ", ".join(f'"{index}": {value}' for index, value in pairs) + "}"
    vector = decode(cell, type_)
    return f"[{', '.join(map(str, vector.astype('u1') if type_.kind == 'bit' else vector))}]"


def _write_parquet(path: str, columns: Columns, rows: int, batches: Iterator[list[tuple[Any, ...]]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _arrow_type(type_)) for name, type_ in columns.items()])
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            cells = zip(columns.values(), zip(*batch))
            arrays = [
                pa.array(map(_arrow_cell(type_), column), field.type) for (type_, column), field in zip(cells, schema)
            ]
            writer.write_batch(pa.record_batch(arrays, schema))


def _arrow_type(type_: VectorType | str) -> Any:
    import pyarrow as pa

    if isinstance(type_, VectorType) and type_.kind != "sparse":
        kinds = {"float16": pa.float16(), "int8": pa.int8(), "bit": pa.bool_()}
        return pa.list_(kinds.get(type_.kind, pa.float32()), type_.dim)
    kinds = {"INTEGER": pa.int64(), "REAL": pa.float64(), "BOOLEAN": pa.bool_(), "BLOB": pa.binary()}
    return kinds.get(str(type_), pa.string())


def _arrow_cell(type_: VectorType | str) -> Callable[[Any], Any]:
    if isinstance(type_, VectorType) and type_.kind != "sparse":
        return lambda cell: None if cell is None else decode(cell, type_)
    if type_ in ("INTEGER", "REAL", "BLOB"):
        return lambda cell: cell
    if type_ == "BOOLEAN":
        return lambda cell: None if cell is None else bool(cell)
    return lambda cell: None if cell is None else str(_text(cell, type_))  # of columns without a type, whatever it is


_WRITERS = {".npy": _write_npy, ".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json_lines}
