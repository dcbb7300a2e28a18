"""Searches with arrays."""

from __future__ import annotations

from ._loading import open_connection
from ._sparse import CompressedRows
from ._vectors import VectorType, encode, fetch, plain, query_array, quoted_table, vector_columns

TYPE_CHECKING = False  # importing typing takes longer than all of this package
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    import pandas
    import pyarrow

# SQLite's values have at most a billion bytes; batches of queries and of their results stay well below.
_BATCH_BYTES = 1 << 28


def search(
    connection: Any, table: str, column: str, queries: Any, k: int, **options: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns the k rows nearest to each query: rowids, int64 [q, k], and distances, float64 [q, k].

    Nearest come first, equal distances by rowid; places beyond the rows that there are hold -1 and NaN. The
    arrays are read-only views of what SQLite returned.

    connection: with the extension (load, connect), also SQLAlchemy's, Django's or sqlite-utils'.
    table, column: a warp table, also ``schema.table``, and a vector column of it.
    queries: [q, dim], or [dim] for one: a NumPy array, an Arrow array of fixed-size lists, a pandas Series of
        arrays, a list of lists; BLOBs and JSON texts as SQL takes them; of a SPARSE column a SciPy sparse matrix. What
        the column's type allows is said at `add`.
    options: of warp_knn_arrays, e.g. ``recall=0.95, nprobe=32, refine=8, exact=True, device="cpu"``.
        ``filter="year > 2000"`` is a SQL expression over the table's columns: the k are chosen among the rows for
        which it is true.

    Raises ValueError for queries of another shape or type, for a column that holds no vectors and for a k that is no
    whole number, and the SQLite module's own error for what SQLite or the extension refuses.
    """
    import numpy as np

    k, options = whole(k), plain_options(options)
    connection = open_connection(connection)
    where = f"{table}.{column}"
    type_ = vector_columns(connection, table).get(column.lower())
    if type_ is None:
        raise ValueError(f"{where} is no column of vectors")
    encoded = _Queries(queries, type_, where)
    name = quoted_table(connection, table)
    most = max(1, _BATCH_BYTES // max(encoded.bytes, 8 * k, 1))
    parts = [
        _search_batch(connection, name, column, encoded, range(first, min(first + most, encoded.count)), k, options)
        for first in range(0, encoded.count or 1, most)
    ]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rowids for rowids, _ in parts]), np.concatenate([far for _, far in parts])


def whole(k: Any) -> int:
    """Returns the number of rows that was asked for. Raises ValueError for what is no such number."""
    try:
        number = int(k)
    except (TypeError, ValueError, OverflowError):  # None; a text; infinity
        number = None
    if number is None or number != k or number < 0:
        raise ValueError(f"k: expected an integer, 0 or more, got {k!r}")
    return number


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options as JSON takes them: with Python's own numbers in place of NumPy's."""
    return {name: plain(value) for name, value in options.items()}


class _Queries:
    """Queries as SQL takes some of them: an expression, and its parameters."""

    def __init__(self, queries: Any, type_: VectorType, where: str) -> None:
        if type_.kind == "sparse":
            rows = CompressedRows(queries, type_, where)
            self.count, self.bytes, self.sql = len(rows), 8 * rows.longest, "warp_csr(?, ?, ?)"
            self.parameters = lambda some: rows[some.start : some.stop].matrix()
            return
        blobs = encode(query_array(queries, type_, where), type_, where)
        self.count, self.bytes, self.sql = len(blobs), type_.bytes, "?"
        self.parameters = lambda some: (blobs[some.start : some.stop].data if some else b"",)


def _search_batch(
    connection: Any, table: str, column: str, queries: _Queries, some: range, k: int, options: dict[str, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    import json

    import numpy as np

    [(rowids, distances)] = fetch(
        connection,
        f"SELECT rowids, distances FROM warp_knn_arrays(?, ?, {queries.sql}, ?, ?)",
        (table, column, *queries.parameters(some), k, json.dumps(options)),
    )
    shape = (len(some), -1 if some else k)
    return np.frombuffer(rowids, "i8").reshape(shape), np.frombuffer(distances, "f8").reshape(shape)


def _columns(rowids: np.ndarray[Any, Any], distances: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Returns one element a hit: what search() returned, without the places that no row took."""
    import numpy as np

    query, rank = np.nonzero(~np.isnan(distances))
    found = (query, rank)
    return {"query": query, "rank": rank + 1, "rowid": rowids[found], "distance": distances[found]}


def to_arrow(rowids: np.ndarray[Any, Any], distances: np.ndarray[Any, Any]) -> pyarrow.Table:
    """Returns what search() returned as an Arrow table of one row a hit: query, rank, rowid, distance.

    `query` counts from 0, `rank` from 1.
    """
    import pyarrow

    return pyarrow.table(_columns(rowids, distances))


def to_pandas(rowids: np.ndarray[Any, Any], distances: np.ndarray[Any, Any]) -> pandas.DataFrame:
    """Returns what search() returned as a DataFrame of one row a hit: query, rank, rowid, distance."""
    import pandas

    return pandas.DataFrame(_columns(rowids, distances))
