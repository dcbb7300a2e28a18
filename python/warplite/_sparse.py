"""SciPy's sparse matrices on their way to the bytes that a SPARSE column holds."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than all of this package
if TYPE_CHECKING:
    from typing import Any

    from ._vectors import VectorType


class CompressedRows:
    """The rows of a sparse matrix [n, dim], whose indexes ascend, each once.

    Raises ValueError, which names `where`, for what is no such matrix, or is too wide for the column.
    """

    def __init__(self, matrix: Any, to: VectorType, where: str) -> None:
        import numpy as np

        if not hasattr(matrix, "tocsr") or len(matrix.shape) != 2:
            raise ValueError(f"{where} takes a SciPy sparse matrix of two dimensions, not {type(matrix).__name__}")
        if matrix.shape[1] > to.dim:
            raise ValueError(f"{where} takes vectors of {to.dim} elements (sparse); these have {matrix.shape[1]}")
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._ends = rows.indptr.astype("<i8")
        self._indices = rows.indices.astype("<u4")
        with np.errstate(over="ignore"):  # the extension refuses infinities, and says where
            self._values = rows.data.astype("<f4")

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, some: slice) -> CompressedRows:
        """Returns consecutive rows."""
        first, last, _ = some.indices(len(self))
        ends = self._ends[first : max(first, last) + 1]
        part = object.__new__(CompressedRows)
        part._ends = ends - ends[0]
        part._indices, part._values = self._indices[ends[0] : ends[-1]], self._values[ends[0] : ends[-1]]
        return part

    @property
    def longest(self) -> int:
        """Entries of the longest row."""
        lengths = self._ends[1:] - self._ends[:-1]
        return int(lengths.max()) if len(lengths) else 0

    def matrix(self) -> tuple[bytes, bytes, bytes]:
        """Returns the rows as warp_csr() takes them."""
        return self._ends.tobytes(), self._indices.tobytes(), self._values.tobytes()

    def cells(self) -> list[bytes]:
        """Returns each row as a BLOB of pairs."""
        import numpy as np

        pairs = np.stack([self._indices, self._values.view("<u4")], axis=1).tobytes()
        return [pairs[8 * begin : 8 * end] for begin, end in zip(self._ends[:-1], self._ends[1:])]
