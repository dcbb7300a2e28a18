"""Files of vectors and of rows, read in batches."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

_SAMPLE = 1000  # rows that the columns' types are taken from

# Numbers that come back as they were written: neither 007 nor +1.
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_REAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Source:
    """A file whose rows come in batches.

    `columns` maps the columns' names to what a warp table declares them as; `rows` says how many rows there are;
    `unequal`, of which columns the vectors are not all as long, and where.
    """

    columns: dict[str, str]
    rows: int
    unequal: dict[str, str] = {}

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        """Yields arrays by columns, of up to `size` rows each, from row `start` (counted from 0) on."""
        raise NotImplementedError


class VectorFile(Source):
    """Vectors in one array, which is mapped and not read: .npy .fbin .u8bin .i8bin .fvecs .bvecs .ivecs."""

    def __init__(self, path: str, column: str) -> None:
        self.path = path
        self.array, self.dims = _map(path)
        if self.array.ndim != 2:
            raise ValueError(f"{path}: an array of two dimensions was expected; its shape is {self.array.shape}")
        kind = {"float16": "FLOAT16", "int8": "INT8", "bool": "BIT"}.get(self.array.dtype.name, "FLOAT")
        self.column = column
        self.columns = {column: f"{kind}[{self.array.shape[1]}]"}
        self.rows = len(self.array)

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        for first in range(start, len(self.array), size):
            some = slice(first, first + size)
            if self.dims is not None and (self.dims[some] != self.dims[0]).any():
                other = first + int((self.dims[some] != self.dims[0]).argmax())
                raise ValueError(
                    f"{self.path}: record {other + 1} has {self.dims[other]} elements, the first one {self.dims[0]}"
                )
            yield {self.column: self.array[some]}


def _map(path: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Maps the vectors of a file [n, dim], and how long each says that it is where it does.

    Raises ValueError where the file's length is not what its head says.
    """
    import numpy as np

    suffix = os.path.splitext(path)[1]
    size = os.path.getsize(path)
    if suffix == ".npy":
        return np.load(path, mmap_mode="r"), None
    if suffix in (".fbin", ".u8bin", ".i8bin"):
        element = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1"}[suffix]
        rows, dim = np.fromfile(path, "<i4", 2).tolist() if size >= 8 else (0, 0)
        if size < 8 or size != 8 + rows * dim * np.dtype(element).itemsize:
            raise ValueError(f"{path}: its head says {rows} vectors of {dim}, its length is {size} bytes")
        return np.memmap(path, element, "r", 8, (rows, dim)), None
    element = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}[suffix]
    dim = int(np.fromfile(path, "<i4", 1)[0]) if size >= 4 else 0
    stride = 4 + dim * np.dtype(element).itemsize
    if dim <= 0 or size % stride:
        raise ValueError(f"{path}: its first vector has {dim} elements, and {size} bytes are not whole vectors of it")
    records = np.memmap(path, np.dtype([("dim", "<i4"), ("vector", element, (dim,))]), "r")
    return records["vector"], records["dim"]


class ParquetFile(Source):
    """A Parquet file; columns of lists are vectors."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        self.file = pa.parquet.ParquetFile(path)
        self.rows = self.file.metadata.num_rows
        _check_names(path, self.file.schema_arrow.names)
        self.columns = _declared_columns(
            self.file.schema_arrow, lambda name: (b[name] for b in self.file.iter_batches(_SAMPLE, columns=[name]))
        )

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        group, groups = 0, self.file.metadata.num_row_groups
        while group < groups and start >= self.file.metadata.row_group(group).num_rows:
            start -= self.file.metadata.row_group(group).num_rows
            group += 1
        for batch in self.file.iter_batches(size, row_groups=range(group, groups)):
            skipped = min(start, len(batch))
            start -= skipped
            if skipped < len(batch):
                yield _batch_cells(batch.slice(skipped), self.columns)


class ArrowRows(Source):
    """An Arrow table in memory; columns of lists are vectors, and so are tensors, which are stored as lists."""

    def __init__(self, table: Any) -> None:
        import pyarrow as pa

        for i, field in enumerate(table.schema):
            if isinstance(field.type, pa.BaseExtensionType):
                stored = [chunk.storage for chunk in table.column(i).chunks]
                table = table.set_column(i, field.name, pa.chunked_array(stored, field.type.storage_type))
        self.table = table
        self.rows = table.num_rows
        self.columns = _declared_columns(
            table.schema, lambda name: (b[name] for b in table.select([name]).to_batches(_SAMPLE))
        )

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        for first in range(start, self.rows, size):
            yield _batch_cells(self.table.slice(first, size), self.columns)


def _declared_columns(schema: Any, batches: Callable[[str], Iterable[Any]]) -> dict[str, str]:
    """Returns what columns are declared as; `batches` yields the values of one, as far as they are wanted."""
    return {field.name: _declared_arrow(field.type, batches(field.name)) for field in schema}


def _batch_cells(batch: Any, columns: dict[str, str]) -> dict[str, Any]:
    return {name: _arrow_cells(batch[name], declared) for name, declared in columns.items()}


def _declared_arrow(type_: Any, batches: Iterable[Any]) -> str:
    import pyarrow as pa

    types = pa.types
    element = getattr(type_, "value_type", None) if types.is_nested(type_) else None
    if element is not None and any(is_(element) for is_ in (types.is_boolean, types.is_integer, types.is_floating)):
        lengths = (len(value) for batch in batches for value in batch.to_pylist() if value is not None)
        dim = getattr(type_, "list_size", None) or next(lengths, 0)
        if dim == 0:  # no vector anywhere
            return "TEXT"
        kind = {"halffloat": "FLOAT16", "int8": "INT8", "bool": "BIT"}.get(str(element), "FLOAT")
        return f"{kind}[{dim}]"
    for declared, fits in (
        ("BOOLEAN", types.is_boolean), ("INTEGER", types.is_integer), ("REAL", types.is_floating),
        ("BLOB", types.is_binary), ("BLOB", types.is_large_binary), ("BLOB", types.is_fixed_size_binary),
    ):  # fmt: skip
        if fits(type_):
            return declared
    return "TEXT"


def _arrow_cells(array: Any, declared: str) -> Any:
    """Returns what add() takes: dates, decimals and whatever else SQLite has no type for as texts."""
    if declared != "TEXT":
        return array
    return [_text(value) for value in array.to_pylist()]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str) if isinstance(value, (list, dict)) else str(value)


class TextFile(Source):
    """A CSV file with a head, or JSON lines; a JSON array of numbers is a vector."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_csv = path.endswith(".csv")
        self.rows = self._count()
        self.columns, self.unequal = {}, {}
        for name, cells in self._sampled().items():
            self.columns[name] = _declared_text(list(cells.values()))
            why = _unequal_vectors(cells)
            if why:
                self.unequal[name] = f"{path}, column {name}, {why}"

    def _sampled(self) -> dict[str, dict[int, Any]]:
        """Returns values by columns and lines: of the first rows, and of a column without any there, of later ones."""
        records = self._records()
        sample = list(islice(records, _SAMPLE))
        columns: dict[str, dict[int, Any]] = {name: {} for _, record in sample for name in record}
        _check_names(self.path, columns)
        while sample and not all(columns.values()):
            for name in [name for name, cells in columns.items() if not cells]:
                columns[name] = {line: record[name] for line, record in sample if record.get(name) is not None}
            sample = list(islice(records, _SAMPLE))
        return columns

    def batches(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        records = (record for _, record in islice(self._records(), start, None))
        while batch := list(islice(records, size)):
            late = {name for record in batch for name in record} - self.columns.keys()
            if late:
                raise ValueError(f"{self.path}: {', '.join(sorted(late))}: in none of the first {_SAMPLE:,} rows")
            yield {name: [_cell(record.get(name)) for record in batch] for name in self.columns}

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        csv.field_size_limit(2**31 - 1)  # Python's own 128 KB is less than a long vector's
        try:
            with open(self.path, newline="" if self.is_csv else None, encoding="utf-8-sig") as file:
                yield file
        except UnicodeDecodeError as error:  # which counts bytes of a buffer
            raise ValueError(f"{self.path}{_line_of_other_text(self.path)}: the text is not UTF-8") from error
        except csv.Error as error:
            raise ValueError(f"{self.path}: {error}") from error

    def _count(self) -> int:
        with self._opened() as file:
            if self.is_csv:
                return max(sum(1 for cells in csv.reader(file) if cells) - 1, 0)
            return sum(1 for line in file if line.strip())

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields rows, each with the number of the line in which it ends."""
        with self._opened() as file:
            if self.is_csv:
                reader = csv.DictReader(file)
                _check_names(self.path, reader.fieldnames or ())
                for record in reader:
                    if None in record or None in record.values():
                        raise ValueError(f"{self.path}: row {record} has not as many cells as the head")
                    yield reader.line_num, {name: value if value != "" else None for name, value in record.items()}
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _parsed_line(self.path, number, line)


def _line_of_other_text(path: str) -> str:
    """Returns where the first bytes are that are not UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f", line {number}, byte {error.start + 1}"
    return ""  # the file has changed


def _check_names(path: str, names: Iterable[str]) -> None:
    """Raises ValueError where two columns have one name: SQL folds the case of ASCII's letters."""
    known: dict[bytes, str] = {}
    for name in names:
        folded = name.encode().lower()
        if folded in known:
            raise ValueError(f"{path}: two columns have one name: {known[folded]!r}, {name!r}")
        known[folded] = name


def _parsed_line(path: str, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_object)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path}, line {number}: a JSON object was expected")
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object. Raises ValueError where values of it have one name, of which the last would stay."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two values have one name: {next(name for name in names if names.count(name) > 1)!r}")
    return made


def _cell(value: Any) -> Any:
    """Returns what SQLite takes: vectors and other JSON as text, and so integers of more than 64 bits."""
    return json.dumps(value) if isinstance(value, (list, dict)) or _is_huge(value) else value


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _declared_text(values: list[Any]) -> str:
    """Returns what holds all of the values, texts of a CSV file or JSON's own."""
    for declared, fits in (("BOOLEAN", _is_bool), ("INTEGER", _is_integer), ("REAL", _is_exact_real)):
        if values and all(map(fits, values)):
            return declared
    dims = {_dim(value) for value in values}
    dim = dims.pop() if len(dims) == 1 else None
    return f"FLOAT[{dim}]" if dim else "TEXT"


def _unequal_vectors(cells: dict[int, Any]) -> str | None:
    """Returns which of a column's vectors, by the numbers of their lines, is not as long as the first.

    None where there is none, and of columns whose values are not all vectors.
    """
    dims = {line: _dim(value) for line, value in cells.items()}
    if None in dims.values() or len(set(dims.values())) < 2:
        return None
    first, *rest = dims
    other = next(line for line in rest if dims[line] != dims[first])
    return f"line {other}: expected {dims[first]} elements, as in line {first}, got {dims[other]}"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_INTEGER.fullmatch(value)) and len(value) <= 20 and not _is_huge(int(value))
    return isinstance(value, int) and not isinstance(value, bool) and not _is_huge(value)


def _is_exact_real(value: Any) -> bool:
    """Whether a REAL column holds the number: a finite one, and an integer with all of its digits."""
    if isinstance(value, str):
        if not _REAL.fullmatch(value) or math.isinf(float(value)):
            return False
        value = int(value) if _INTEGER.fullmatch(value) else float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 1 << 1023 and int(float(value)) == value
    return isinstance(value, float)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _dim(value: Any) -> int | None:
    """Returns the number of elements of a vector, as a list or as JSON text; None for anything else."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, list) and all(map(_is_number, value)):
        return len(value)
    return None


def open_source(path: str, column: str) -> Source:
    """Opens a file by its suffix; `column` names the vectors of a file that holds nothing else.

    Raises ValueError for other suffixes and for files that are not what their suffix says.
    """
    suffix = os.path.splitext(path)[1]
    if suffix in (".npy", ".fbin", ".u8bin", ".i8bin", ".fvecs", ".bvecs", ".ivecs"):
        return VectorFile(path, column)
    if suffix == ".parquet":
        return ParquetFile(path)
    if suffix in (".csv", ".jsonl", ".ndjson"):
        return TextFile(path)
    raise ValueError(f"{path}: files of .npy .fbin .u8bin .i8bin .fvecs .bvecs .ivecs .parquet .csv .jsonl can be read")
