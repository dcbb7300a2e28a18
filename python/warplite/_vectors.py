"""Vectors on their way between arrays and the bytes that a column holds."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # importing typing takes longer than all of this package
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_KINDS = {
    "float": "float32", "f32": "float32", "float32": "float32",
    "f16": "float16", "float16": "float16",
    "bf16": "bfloat16", "bfloat16": "bfloat16",
    "i8": "int8", "int8": "int8",
    "bit": "bit",
    "sparse": "sparse",
}  # fmt: skip
_FINE = ("datetime64[ns]", "datetime64[ps]", "datetime64[fs]", "datetime64[as]")
_NAME = r'(?:"((?:[^"]|"")+)"|\[([^]]+)\]|`([^`]+)`|(\w+))'
_DECLARATION = _NAME + r"\s+(" + "|".join(_KINDS) + r")\s*\[\s*(\d+)\s*\]"
_MODULE = r"CREATE\s+VIRTUAL\s+TABLE\s+(?:'(?:[^']|'')*'|" + _NAME + r")\s*USING\s*" + _NAME


class VectorType(namedtuple("VectorType", ["kind", "dim"])):
    """What a vector column was declared as: kind, of float32, float16, bfloat16, int8, bit and
    sparse; dim, its elements."""

    kind: str
    dim: int

    @property
    def bytes(self) -> int:
        """Bytes of one vector, which is not sparse."""
        return self.dim * {"float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "bit": 1}[self.kind] // 8


def fetch(connection: Any, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    """Returns a statement's rows as tuples with texts, whatever factories and traces the connection has."""
    cursor = connection.cursor()
    for name in ("row_factory", "row_trace"):  # apsw's is the latter
        if hasattr(cursor, name):
            setattr(cursor, name, None)
    text_factory = getattr(connection, "text_factory", str)
    if text_factory is str:
        return cursor.execute(sql, parameters).fetchall()  # type: ignore[no-any-return]
    connection.text_factory = str
    try:
        return cursor.execute(sql, parameters).fetchall()  # type: ignore[no-any-return]
    finally:
        connection.text_factory = text_factory


def quoted(name: str) -> str:
    """Returns the name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _parts(connection: Any, table: str) -> list[str]:
    """Returns the table's name, after its schema's where that is written; a dot after anything else is the name's."""
    schema, _, name = table.partition(".")
    schemas = ["main", "temp", *(row[1].lower() for row in fetch(connection, "PRAGMA database_list"))]
    return [schema, name] if name and schema.lower() in schemas else [table]


def quoted_table(connection: Any, table: str) -> str:
    """Returns ``schema.table`` or ``table`` as SQL writes it."""
    return ".".join(map(quoted, _parts(connection, table)))


def plain(value: Any) -> Any:
    """Returns Python's own value for NumPy's and pandas', and None for what pandas writes where one is missing."""
    if hasattr(value, "item"):
        return with_dates(value).item()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value  # pandas' Timestamp


def with_dates(values: Any) -> Any:
    """Returns NumPy's times in microseconds where they are finer: Python's own values of these are bare numbers."""
    name = getattr(getattr(values, "dtype", None), "name", None)
    return values.astype("datetime64[us]") if name in _FINE else values


def declaration(connection: Any, table: str) -> str | None:
    """Returns the CREATE statement of a table or a view, None where there is none."""
    *schemas, name = _parts(connection, table)
    schemas = schemas or [row[1] for row in fetch(connection, "PRAGMA database_list")]
    # SQLite's own order: temporary tables hide those of the file.
    for schema in sorted(schemas, key=lambda s: s != "temp"):
        master = f"{quoted(schema)}.sqlite_master"
        sql = f"SELECT sql FROM {master} WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
        rows = fetch(connection, sql, (name,))
        if rows:
            return rows[0][0]  # type: ignore[no-any-return]
    return None


def module_of(sql: str) -> str:
    """Returns the module that a CREATE statement names, in lower case; "" for what is no virtual table's."""
    import re

    found = re.match(_MODULE, sql, re.IGNORECASE)
    return _name_in(found.groups()[4:]) if found else ""


def vector_columns(connection: Any, table: str) -> dict[str, VectorType]:
    """Returns the vector columns of a warp table by their names in lower case, as its CREATE statement says.

    Raises ValueError where there is no such table.
    """
    import re

    sql = declaration(connection, table)
    if sql is None:
        raise ValueError(f"no such table: {table}")
    found = re.finditer(_DECLARATION, sql, re.IGNORECASE)
    return {_name_in(m.groups()[:4]): VectorType(_KINDS[m[5].lower()], int(m[6])) for m in found}


def _name_in(forms: tuple[str | None, ...]) -> str:
    """Returns the name that one of _NAME's groups has, in lower case."""
    return next(filter(None, forms)).replace('""', '"').lower()


def table_columns(connection: Any, table: str) -> dict[str, str]:
    """Returns the types of a table's columns by their names."""
    *schema, name = _parts(connection, table)
    pragma = ".".join([*map(quoted, schema), "table_info"])
    return {row[1]: row[2] for row in fetch(connection, f"PRAGMA {pragma}({quoted(name)})")}


def as_array(values: Any, where: str = "vectors") -> np.ndarray[Any, Any]:
    """Returns vectors as an array [n, dim], without a copy where they are one already.

    Takes NumPy arrays and what turns into one (a tensor), Arrow arrays of (fixed-size) lists, pandas Series whose
    elements are arrays, and lists of lists. None, BLOBs and JSON texts among them are kept, in an array of objects [n].

    Raises ValueError, which begins with `where`, for what is no array, for vectors of different lengths, and for masked
    elements: a vector has a number everywhere.
    """
    import numpy as np

    if hasattr(values, "null_count") and type(values).__module__.startswith("pyarrow"):
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        if _has_one_length(values):
            values = values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), -1)
        else:
            values = values.to_pylist()
    elif isinstance(values, np.ma.MaskedArray) and values.ndim == 1 and values.dtype == object:
        values = values.tolist()
    elif hasattr(values, "__array__") or hasattr(values, "__array_interface__") or _is_memory(values):
        _refuse_masked([values], where)  # pandas, polars, PyTorch
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype != object and values.ndim > 0:
        return values
    if is_one_value(values):
        raise ValueError(f"{where}: an array of vectors was expected, got {values!r:.60}")
    values = [_cell(value) for value in (values.tolist() if isinstance(values, np.ndarray) else values)]
    _refuse_masked(values, where)
    if any(value is None or isinstance(value, (str, bytes)) for value in values):
        cells = np.empty(len(values), object)
        cells[:] = values
        return cells
    try:
        return np.asarray(values)
    except ValueError as error:  # "inhomogeneous shape"
        lengths = sorted({len(v) for v in values if hasattr(v, "__len__")})
        raise ValueError(f"{where}: vectors of different lengths: {lengths[:5]}") from error


def is_one_value(values: Any) -> bool:
    """Whether this is no list or array: a text, whose letters are no values, a number or None."""
    one = isinstance(values, (str, bytes, bytearray)) or getattr(values, "ndim", 1) == 0
    return one or not hasattr(values, "__iter__")


def _is_memory(value: Any) -> bool:
    """Whether this is a buffer of numbers, and not of bytes."""
    return isinstance(value, memoryview) and value.format != "B"


def _cell(value: Any) -> Any:
    """Returns a vector in a list of them: None for a missing one, bytes for a BLOB, else what it is."""
    if value is None or _is_missing(value):
        return None
    if isinstance(value, (bytearray, memoryview)) and not _is_memory(value):
        return bytes(value)
    is_objects = getattr(getattr(value, "dtype", None), "name", "") == "object"
    return value.tolist() if is_objects else value  # which may be numbers


def _refuse_masked(parts: list[Any], where: str) -> None:
    import numpy as np

    if any(map(np.ma.is_masked, parts)):
        raise ValueError(
            f"{where}: vectors with masked elements: numbers were expected; a vector is missing as a whole, as None"
        )


def query_array(queries: Any, type_: VectorType, where: str) -> np.ndarray[Any, Any]:
    """Returns queries, or one, as an array [q, dim] for encode(); BLOBs and JSON texts are taken as SQL takes them.

    Raises ValueError, which names `where`, for what are none.
    """
    import numpy as np

    if isinstance(queries, (str, bytes, bytearray)):
        queries = [queries]
    array = as_array(queries, where)
    if array.shape == (0,):  # an empty list, which has no type
        return np.empty((0, type_.dim), np.uint8)
    if array.dtype == object and array.ndim == 1:
        array = as_array([_query(cell, type_, f"{where}: queries[{i}]") for i, cell in enumerate(array)], where)
    return array[np.newaxis] if array.ndim == 1 else array


def _query(cell: Any, type_: VectorType, where: str) -> Any:
    """Returns a query as numbers."""
    import json

    if cell is None:
        raise ValueError(f"{where}: a vector was expected, got none")
    if isinstance(cell, str):
        try:
            return json.loads(cell)
        except ValueError as error:
            raise ValueError(f"{where}: a JSON array of {type_.dim} numbers was expected, got {cell!r:.60}") from error
    if not isinstance(cell, bytes):
        return cell
    wide = VectorType("float32", type_.dim)
    of = wide if "float" in type_.kind and len(cell) == wide.bytes else type_
    if len(cell) != of.bytes:
        raise ValueError(f"{where}: a BLOB of {type_.bytes} bytes was expected, got {len(cell)}")
    return decode(cell, of)


def _has_one_length(lists: Any) -> bool:
    """Whether an Arrow array's lists are as long as each other, and none is missing."""
    if lists.null_count or not len(lists):
        return False
    if hasattr(lists.type, "list_size"):
        return True
    if not hasattr(lists, "value_lengths") or not hasattr(lists, "flatten"):
        return False
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    return bool((lengths == lengths[0]).all()) and lists.flatten().null_count == 0


def first_missing(array: np.ndarray[Any, Any]) -> int | None:
    """Returns the first row of as_array()'s that has no vector."""
    return next((i for i, row in enumerate(array) if row is None), None) if array.dtype == object else None


def _is_missing(value: Any) -> bool:
    """Whether NumPy or pandas writes a missing vector so: masked, a NaN or NA where the others are arrays."""
    return (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "MaskedConstant")


def encode(array: np.ndarray[Any, Any], to: VectorType, where: str) -> np.ndarray[Any, Any]:
    """Returns vectors [n, dim] as the column's bytes, a C-contiguous array of uint8 [n, bytes of a vector].

    Float columns take any real numbers and round them; INT8 columns take integers from -128 to 127; BIT[n]
    columns take [rows, n] of bool, or of zeros and ones, or [rows, n / 8] of uint8 packed least significant
    bit first. Raises ValueError, which names `where`, for other shapes and values.
    """
    import numpy as np

    expected = f"{where} takes vectors of {to.dim} elements ({to.kind})"
    if array.ndim != 2:
        raise ValueError(f"{expected}, an array of two dimensions; this one has {array.ndim}, shape {array.shape}")
    packed = to.kind == "bit" and array.dtype == np.uint8 and array.shape[1] == to.bytes
    if array.shape[1] != to.dim and not packed:
        raise ValueError(f"{expected}; these have {array.shape[1]}")
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise ValueError(f"{expected}; these are of type {array.dtype}")
    if to.kind == "bit":
        words = array if packed else np.packbits(_checked(array, 0, 1, expected), axis=1, bitorder="little")
    elif to.kind == "int8":
        words = _checked(array, -128, 127, expected).astype(np.int8, copy=False)
    elif to.kind == "bfloat16":
        words = array if array.dtype.name == "bfloat16" else _to_bfloat16(array)
    else:
        with np.errstate(over="ignore"):  # the extension refuses infinities, and says where
            words = array.astype("<f4" if to.kind == "float32" else "<f2", copy=False)
    return np.ascontiguousarray(words).view(np.uint8).reshape(len(array), to.bytes)


def decode(cell: bytes, of: VectorType) -> np.ndarray[Any, Any]:
    """Returns a column's vector, which is not sparse, as an array [dim]: of float32 for BFLOAT16, of bool for BIT."""
    import numpy as np

    if of.kind == "bit":
        return np.unpackbits(np.frombuffer(cell, np.uint8), bitorder="little").view(bool)
    if of.kind == "bfloat16":
        return (np.frombuffer(cell, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(cell, {"float32": "<f4", "float16": "<f2", "int8": "i1"}[of.kind])


def _checked(array: np.ndarray[Any, Any], least: int, most: int, expected: str) -> np.ndarray[Any, Any]:
    """Returns the integers, all of which are in the range."""
    if array.dtype.kind not in "biu":
        raise ValueError(f"{expected}, integers; these are of type {array.dtype}")
    if array.size and (array.min() < least or array.max() > most):
        raise ValueError(f"{expected}, from {least} to {most}; these reach from {array.min()} to {array.max()}")
    return array


def _to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rounds to the upper half of a float32: to nearest, ties to even. NaN stays one."""
    import numpy as np

    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(array, "<f4").view("<u4")
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, rounded).astype("<u2")
