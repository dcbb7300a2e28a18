"""Filters by metadata as SQL: what the stores for LangChain and LlamaIndex have in common."""

from __future__ import annotations

import datetime
import json
import math
from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

from ._vectors import fetch, plain

#: SQL of a filter, and the values for its parameters.
Condition = tuple[str, list[Any]]


class Column(namedtuple("Column", ["sql", "kind"])):
    """A key of the metadata that is a column: its name in SQL, and the kind of its values, number or text."""

    sql: str
    kind: str


_COMPARISONS = {"==": "IS", "!=": "IS NOT", ">": ">", ">=": ">=", "<": "<", "<=": "<="}

# A list has its elements, an object its keys, a text the texts within it.
_HAS = """CASE field.type
 WHEN 'array' THEN EXISTS (SELECT 1 FROM json_each(field.value) AS part WHERE part.value IS wanted.value)
 WHEN 'object' THEN EXISTS (SELECT 1 FROM json_each(field.value) AS part WHERE part.key IS wanted.value)
 WHEN 'text' THEN wanted.type = 'text' AND instr(field.value, wanted.value) > 0
 ELSE field.value IS wanted.value END"""

_WIDEST = 50  # conditions side by side; SQLite's expressions are at most 1,000 deep


def compare(key: str, operator: str, value: Any, column: Column | None = None) -> Condition:
    """Returns the condition that compares a key of the metadata, or its column, with a value.

    Operators: == != > >= < <= text_match text_match_insensitive is_empty contains; in nin any all, with a list. Numbers
    compare with numbers and texts with texts, dates as ISO texts; nothing of one kind is equal to, less or more than
    something of the other. A key that is missing is None: == None and in [None] find it, and so do != and nin of
    anything else. The connection needs prepare(). Raises ValueError, which names the key, for other operators and for
    values of other types.
    """
    target, values = (column.sql, []) if column else _extracted(key)
    kind = column.kind if column else None
    if operator == "is_empty":
        return f"coalesce({target}, '') IN ('', '[]')", values
    if operator in ("in", "nin"):
        among = _among(target, values, _several(key, operator, value), kind)
        return among if operator == "in" else joined([among], "NOT")
    if operator in ("any", "all"):
        return _having(key, _several(key, operator, value), every=operator == "all")
    value = _single(key, operator, value)
    if operator == "contains":
        return _having(key, [value], every=False)
    if operator in _COMPARISONS:
        return _compared(target, values, _COMPARISONS[operator], value, kind)
    if operator == "text_match":
        return f"instr({target}, ?) > 0", [*values, value]
    if operator == "text_match_insensitive":
        return f"instr(warplite_casefold({target}), ?) > 0", [*values, _casefold(value)]
    raise ValueError(f"filter: {key}: no such operator: {operator}")


def joined(conditions: Sequence[Condition], how: str = "AND") -> Condition:
    """Returns that all (AND), some (OR) or none (NOT) of the conditions hold.

    Of no conditions, all hold, none holds, and it is not so that some hold.
    """
    if not conditions:
        return "0" if how == "OR" else "1", []
    word = " AND " if how == "AND" else " OR "
    parts = [sql for sql, _ in conditions]
    while len(parts) > _WIDEST:
        parts = [f"({word.join(parts[i : i + _WIDEST])})" for i in range(0, len(parts), _WIDEST)]
    values = [value for _, some in conditions for value in some]
    inner = word.join(parts)
    return f"(({inner}) IS NOT TRUE)" if how == "NOT" else f"({inner})", values


def one_of(target: str, values: list[Any], wanted: Iterable[Any]) -> Condition:
    """Returns that an expression, which has some parameters' values, is one of the wanted numbers and texts."""
    listed: list[Any] = []
    apart: list[Any] = []
    for value in wanted:
        (listed if _is_plain_json(value) else apart).append(value)
    among = f"{target} IN (SELECT value FROM json_each(?))", [*values, json.dumps(listed)]
    return joined([among, *((f"{target} = ?", [*values, value]) for value in apart)], "OR")


def _is_plain_json(value: Any) -> bool:
    """Whether SQLite reads the value in JSON: it ends a text at a NUL, and has no infinities."""
    return "\0" not in value if isinstance(value, str) else math.isfinite(value)


def listed_texts(ids: Iterable[Any], *, or_none: bool = False) -> list[Any]:
    """Returns ids as a list. Raises ValueError for a single text, and for ids that are no texts (nor None)."""
    wrong = [ids] if isinstance(ids, (str, bytes)) else []
    listed = list(ids)
    wrong += [id_ for id_ in listed if not (isinstance(id_, str) or (or_none and id_ is None))]
    if wrong:
        raise ValueError(
            f"ids: a list of texts was expected, got {'' if wrong[0] is ids else 'among them '}{wrong[0]!r}"
        )
    return listed


def kind_of(type_: str) -> str:
    """Returns the kind of values that a column of a declared type has: number or text."""
    return "text" if "TEXT" in type_.upper() or "CHAR" in type_.upper() else "number"


def prepare(connection: Any) -> None:
    """Gives a connection the function that conditions call."""
    # SQLite refuses to define a function anew while a statement runs.
    if fetch(connection, "SELECT 1 FROM pragma_function_list WHERE name = 'warplite_casefold'"):
        return
    if hasattr(connection, "create_function"):
        connection.create_function("warplite_casefold", 1, _casefold, deterministic=True)
    else:  # apsw
        connection.create_scalar_function("warplite_casefold", _casefold, 1, deterministic=True)


def plain_value(value: Any) -> Any:
    """Returns Python's own value for NumPy's, an ISO text for a date or a time, and None for what is missing."""
    if type(value).__name__ == "datetime64":
        value = value.astype("datetime64[us]")  # item() of nanoseconds is a number
    value = value.tolist() if hasattr(value, "tolist") else plain(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return None if isinstance(value, float) and math.isnan(value) else value


def _casefold(value: Any) -> Any:
    """Folds the case of all letters: SQLite's lower() knows those of ASCII."""
    return value.casefold() if isinstance(value, str) else value


def _extracted(key: str) -> Condition:
    """Returns the expression of a value in the metadata."""
    text = json.dumps(key)
    if text == f'"{key}"':
        return "json_extract(metadata, ?)", ["$." + text]
    # SQLite versions differ in how paths spell such a key.
    return "(SELECT value FROM json_each(metadata) WHERE key = ?)", [key]


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _compared(target: str, values: list[Any], sign: str, value: Any, kind: str | None) -> Condition:
    if value is not None and kind not in (None, _kind(value)):  # SQLite would convert the value to the column's type
        return "1" if sign == "IS NOT" else "0", []
    condition = f"{target} {sign} ?", [*values, value]
    if value is None or kind is not None or sign.startswith("IS"):
        return condition
    # Numbers come before texts.
    return joined([condition, (f"{target} {'>=' if isinstance(value, str) else '<'} ''", values)])


def _among(target: str, values: list[Any], wanted: list[Any], kind: str | None) -> Condition:
    known = [value for value in wanted if value is not None and kind in (None, _kind(value))]
    among = one_of(target, values, known)
    return joined([among, (f"{target} IS NULL", values)], "OR") if None in wanted else among


def _having(key: str, wanted: list[Any], *, every: bool) -> Condition:
    """Returns that the metadata's list, object or text has one, or every one, of some values."""
    for value in wanted:
        if value is not None and not _is_plain_json(value):
            raise ValueError(f"filter: {key}: SQLite reads no such value in JSON: {value!r}")
    some = "NOT EXISTS" if every else "EXISTS"
    has = f"NOT {_HAS}" if every else _HAS
    return (
        "EXISTS (SELECT 1 FROM json_each(metadata) AS field WHERE field.key = ? AND field.type <> 'null' "
        f"AND {some} (SELECT 1 FROM json_each(?) AS wanted WHERE {has}))",
        [key, json.dumps(wanted)],
    )


def _several(key: str, operator: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(f"filter: {key}: {operator} takes a list, not {value!r}")
    return [_single(key, operator, one) for one in value]


def _single(key: str, operator: str, value: Any) -> Any:
    value = plain_value(value)
    if value is not None and not isinstance(value, (str, int, float)):
        raise ValueError(f"filter: {key}: {operator} compares numbers and texts, not {value!r}")
    # As SQLite reads an integer of more than 64 bits in JSON.
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
