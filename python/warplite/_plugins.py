"""What plug-ins of other programs share."""

from __future__ import annotations

import warnings
from typing import Any

from ._library import LibraryNotFoundError
from ._loading import LoadingNotSupportedError, load


def load_or_warn(connection: Any) -> bool:
    """Loads the extension and returns whether that was possible; a program that can do without it goes on."""
    try:
        load(connection)
    except (LibraryNotFoundError, LoadingNotSupportedError) as error:
        warnings.warn(f"warplite is not loaded. {error}", RuntimeWarning, stacklevel=2)
        return False
    return True
