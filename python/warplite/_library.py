"""Where the native library is."""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


class LibraryNotFoundError(FileNotFoundError):
    """Neither the package nor WARPLITE_EXTENSION has the native library."""


def _suffix() -> str:
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def loadable_path() -> str:
    """Returns the path of the native library, for ``.load`` or ``sqlite3_load_extension()``.

    The library beside this file comes first, then the one that the environment variable WARPLITE_EXTENSION
    names (a source checkout has none beside it). Raises LibraryNotFoundError where there is neither.
    """
    beside = os.path.join(FOLDER, "warplite" + _suffix())
    if os.path.exists(beside):
        return beside
    named = os.environ.get("WARPLITE_EXTENSION")
    if named and os.path.exists(named):
        return os.path.abspath(named)
    raise LibraryNotFoundError(
        f"{beside} is not there, and WARPLITE_EXTENSION names "
        f"{'no file: ' + named if named else 'none'}. Install a wheel of warplite for this platform, or "
        "build the library and set WARPLITE_EXTENSION to its path."
    )


def cuda_plugin_path() -> str:
    """Returns where the library looks for the plug-in for GPUs: where it was told to, or beside itself."""
    beside = os.path.join(os.path.dirname(loadable_path()), "warplite_cuda" + _suffix())
    return os.environ.get("WARPLITE_CUDA_PLUGIN") or beside


def announce_cuda_plugin() -> None:
    """Tells the library where the plug-in of the package warplite_cuda is, unless it was told."""
    if os.environ.get("WARPLITE_CUDA_PLUGIN"):
        return
    from importlib.util import find_spec

    package = find_spec("warplite_cuda")
    for folder in (package and package.submodule_search_locations) or ():
        plugin = os.path.join(folder, "warplite_cuda" + _suffix())
        if os.path.exists(plugin):
            os.environ["WARPLITE_CUDA_PLUGIN"] = plugin  # the library calls getenv() when it wants a GPU
            return
