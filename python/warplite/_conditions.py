"""Filters by metadata as SQL: what the stores for LangChain and LlamaIndex have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ._vectors import fetch, plain, quoted

#: SQL of a filter, and the values for its parameters.
Condition = tuple[str, list[Any]]

_COMPARISONS = {"==": "IS", "!=": "IS NOT", ">": ">", ">=": ">=", "<": "<", "<=": "<="}

# A list has its elements, an object its keys, a text the texts within it.
_HAS = """CASE field.type
 WHEN 'array' THEN EXISTS (SELECT 1 FROM json_each(field.value) AS part WHERE part.value IS wanted.value)
 WHEN 'object' THEN EXISTS (SELECT 1 FROM json_each(field.value) AS part WHERE part.key IS wanted.value)
 WHEN 'text' THEN wanted.type = 'text' AND instr(field.value, wanted.value) > 0
 ELSE field.value IS wanted.value END"""


def compare(key: str, operator: str, value: Any, *, is_column: bool) -> Condition:
    """Returns the condition that compares a key of the metadata, or the column of its name, with a value.

    Operators: == != > >= < <= text_match text_match_insensitive is_empty contains; in nin any all, with a list. A key
    that is missing is None: == None and in [None] find it, and so do != and nin of anything else. The connection needs
    prepare(). Raises ValueError, which names the key, for other operators and for values of other types.
    """
    target, values = (quoted(key), []) if is_column else _extracted(key)
    if operator == "is_empty":
        return f"coalesce({target}, '') IN ('', '[]')", values
    if operator in ("in", "nin"):
        among = _among(target, values, _several(key, operator, value))
        return among if operator == "in" else joined([among], "NOT")
    if operator in ("any", "all"):
        return _having(key, _several(key, operator, value), every=operator == "all")
    value = _single(key, operator, value)
    if operator == "contains":
        return _having(key, [value], every=False)
    if operator in _COMPARISONS:
        return f"{target} {_COMPARISONS[operator]} ?", [*values, value]
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
    inner = (" AND " if how == "AND" else " OR ").join(sql for sql, _ in conditions)
    values = [value for _, some in conditions for value in some]
    return f"(({inner}) IS NOT TRUE)" if how == "NOT" else f"({inner})", values


def in_ids(ids: Sequence[str], column: str = "id") -> Condition:
    """Returns that a column is one of some texts, however many."""
    return f"{quoted(column)} IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))]


def prepare(connection: Any) -> None:
    """Gives a connection the function that conditions call."""
    # SQLite refuses to define a function anew while a statement runs.
    if fetch(connection, "SELECT 1 FROM pragma_function_list WHERE name = 'warplite_casefold'"):
        return
    if hasattr(connection, "create_function"):
        connection.create_function("warplite_casefold", 1, _casefold, deterministic=True)
    else:  # apsw
        connection.create_scalar_function("warplite_casefold", _casefold, 1, deterministic=True)


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


def _among(target: str, values: list[Any], wanted: list[Any]) -> Condition:
    known = [value for value in wanted if value is not None]
    among = f"{target} IN ({', '.join('?' * len(known))})", [*values, *known]
    if len(known) == len(wanted):
        return among
    return joined([among, (f"{target} IS NULL", values)], "OR")


def _having(key: str, wanted: list[Any], *, every: bool) -> Condition:
    """Returns that the metadata's list, object or text has one, or every one, of some values."""
    some = "NOT EXISTS" if every else "EXISTS"
    has = f"NOT {_HAS}" if every else _HAS
    return (
        "EXISTS (SELECT 1 FROM json_each(metadata) AS field WHERE field.key = ? AND field.type <> 'null' "
        f"AND {some} (SELECT 1 FROM json_each(?) AS wanted WHERE {has}))",
        [key, json.dumps(wanted, allow_nan=False)],
    )


def _several(key: str, operator: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(f"filter: {key}: {operator} takes a list, not {value!r}")
    return [_single(key, operator, one) for one in value]


def _single(key: str, operator: str, value: Any) -> Any:
    value = plain(value)
    if value is not None and not isinstance(value, (str, int, float)):
        raise ValueError(f"filter: {key}: {operator} compares numbers and texts, not {value!r}")
    return value
