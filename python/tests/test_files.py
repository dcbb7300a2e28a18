"""Rows of files and tables, from any row on."""

import numpy as np
import pytest

from warplite._files import ArrowRows, ParquetFile
from warplite._vectors import as_array

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def make_table(rows=25):
    vectors = np.arange(rows * 3, dtype="f4").reshape(rows, 3)
    return vectors, pa.table({"n": range(rows), "e": list(vectors), "s": [f"row {i}" for i in range(rows)]})


@pytest.mark.parametrize("start", [0, 3, 6, 7, 8, 20, 24, 25, 99])
def test_rows_from_any_row_on(tmp_path, start):
    vectors, table = make_table()
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    for source in (ParquetFile(str(tmp_path / "rows.parquet")), ArrowRows(table)):
        assert source.rows == 25 and source.columns["e"].endswith("[3]")
        batches = list(source.batches(start, 4))
        assert [n for batch in batches for n in batch["n"].to_pylist()] == list(range(25))[start:]
        assert all(len(batch["e"]) <= 4 for batch in batches)
        found = [row for batch in batches for row in as_array(batch["e"])]
        np.testing.assert_array_equal(np.array(found).reshape(-1, 3), vectors[start:])


def test_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([[1], [2]], names=["n", "N"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="rows.parquet: two columns have one name: 'n', 'N'"):
        ParquetFile(str(tmp_path / "rows.parquet"))


def test_lists_become_one_array():
    same = pa.array([[1.0, 2.0], [3.0, 4.0]])
    assert as_array(same).dtype == np.float64 and as_array(same).tolist() == [[1, 2], [3, 4]]
    assert as_array(same.slice(1)).tolist() == [[3, 4]]
    assert as_array(pa.chunked_array([same, same])).shape == (4, 2)
    with_null = as_array(pa.array([[1.0], None]))
    assert with_null.dtype == object and with_null[1] is None
    with pytest.raises(ValueError, match="different lengths"):
        as_array(pa.array([[1.0], [1.0, 2.0]]))
    inner = as_array(pa.array([[1.0, None], [1.0, 2.0]]))
    assert inner.shape == (2, 2)
    assert len(as_array(pa.array([], pa.list_(pa.float32())))) == 0
