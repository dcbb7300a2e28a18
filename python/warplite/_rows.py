"""Rows from arrays."""

from __future__ import annotations

from contextlib import contextmanager, suppress

from ._loading import open_connection
from ._sparse import CompressedRows
from ._vectors import (
    VectorType,
    as_array,
    encode,
    is_one_value,
    plain,
    quoted,
    quoted_table,
    vector_columns,
    with_dates,
)

TYPE_CHECKING = False  # importing typing takes longer than all of this package
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    import numpy as np

# SQLite waits for another writer where a transaction begins; in the midst of one that has read, it gives up at once.
_BEGIN_WRITING = "BEGIN IMMEDIATE"


def add(connection: Any, table: str, rowids: Any, /, **columns: Any) -> int:
    """Inserts rows from arrays, all or none of them, and returns how many.

    rowids: int64 [n], or None where the table numbers its rows itself.
    columns: by the columns' names. Of a vector column [n, dim]: a NumPy array, an Arrow array of fixed-size
        lists, a pandas Series of arrays or a list; None stands for NULL. FLOAT, FLOAT16 and BFLOAT16 columns take
        any real numbers and round them; INT8 takes integers from -128 to 127; BIT[n] takes [rows, n] of bool or
        zeros and ones, or [rows, n / 8] of uint8, packed least significant bit first; SPARSE takes a SciPy sparse
        matrix, or a list of JSON texts and BLOBs. Of other columns [n].

    Within a transaction of the caller's the rows belong to that; else they are committed here. Raises
    ValueError for arrays of different lengths, shapes or types, and the SQLite module's own error for what SQLite
    or the extension refuses; then no row was inserted.
    """
    holder, connection = connection, open_connection(connection)
    types = vector_columns(connection, table)
    cells: dict[str, Any] = {} if rowids is None else {"rowid": _plain_cells(rowids, f"{table}.rowid")}
    for name, values in columns.items():
        type_ = types.get(name.lower())
        where = f"{table}.{name}"
        cells[name] = _plain_cells(values, where) if type_ is None else _vector_cells(values, type_, where)
    lengths = {name: len(values) for name, values in cells.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"arrays of different lengths for {table}: {lengths or 'none'}")
    sql = "INSERT INTO {}({}) VALUES ({})".format(
        quoted_table(connection, table), ", ".join(map(quoted, cells)), ", ".join("?" * len(cells))
    )
    _begin_with(holder, connection)
    with writing(connection):
        connection.executemany(sql, zip(*cells.values()))
    return next(iter(lengths.values()))


def _plain_cells(values: Any, where: str) -> list[Any]:
    """Returns Python's own values, with None for what is missing. Raises ValueError for a text and for one value."""
    if is_one_value(values):
        raise ValueError(f"{where}: a value for each row was expected, got {values!r:.60}")
    values = with_dates(values)
    for convert in ("to_pylist", "tolist"):  # Arrow; NumPy, pandas
        if hasattr(values, convert):
            values = getattr(values, convert)()
            break
    return [plain(value) for value in values]


def _vector_cells(values: Any, type_: VectorType, where: str) -> np.ndarray[Any, Any] | list[Any]:
    if type_.kind == "sparse":
        return CompressedRows(values, type_, where).cells() if hasattr(values, "tocsr") else list(values)
    array = as_array(values, where)
    if len(array) == 0:
        return []
    if array.dtype != object:
        return encode(array, type_, where)
    given = [i for i, value in enumerate(array) if value is not None and not isinstance(value, (str, bytes))]
    cells = list(array)  # None; JSON texts and BLOBs, which the extension checks
    if given:
        for i, row in zip(given, encode(as_array([array[i] for i in given], where), type_, where)):
            cells[i] = row
    return cells


def _begin_with(holder: Any, connection: Any) -> None:
    """Begins the transaction that SQLAlchemy's object says it is in, and leaves to the first statement that writes."""
    in_transaction = getattr(holder, "in_transaction", None)
    if callable(in_transaction) and in_transaction() and not connection.in_transaction:
        connection.execute(_BEGIN_WRITING)


def writing(connection: Any) -> AbstractContextManager[None]:
    """As transaction(), of what writes: it waits for other writers as long as the connection's timeout says."""
    return transaction(connection, _BEGIN_WRITING)


@contextmanager
def transaction(connection: Any, begin: str = "BEGIN") -> Iterator[None]:
    """Commits what is done within, or undoes it after an exception; inside the caller's transaction, a savepoint."""
    end, undo = "COMMIT", ["ROLLBACK"]
    if connection.in_transaction:
        begin, end, undo = (
            "SAVEPOINT warplite",
            "RELEASE warplite",
            ["ROLLBACK TO warplite", "RELEASE warplite"],
        )
    connection.execute(begin)
    try:
        yield
        connection.execute(end)
    except BaseException:
        with suppress(Exception):  # a full disk has rolled it back already
            for statement in undo:
                connection.execute(statement)
        raise
