"""Similarity search in SQLite: loads the extension, and searches with arrays.

    import warplite
    db = warplite.connect("papers.db")         # or load(an open connection)
    rowids, distances = warplite.search(db, "papers", "embedding", queries, k=10)

Importing this package imports neither NumPy nor a SQLite module; the functions do, when they are called.
"""

from ._library import LibraryNotFoundError, loadable_path
from ._loading import LoadingNotSupportedError, connect, load, load_async
from ._rows import add
from ._search import search, to_arrow, to_pandas

__all__ = [
    "LibraryNotFoundError",
    "LoadingNotSupportedError",
    "add",
    "connect",
    "load",
    "load_async",
    "loadable_path",
    "search",
    "to_arrow",
    "to_pandas",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("warplite")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
