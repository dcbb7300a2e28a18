"""SciPy's sparse matrices in and out."""

import numpy as np
import pytest

import warplite

sparse = pytest.importorskip("scipy.sparse")


def make(db, rows=500, dim=1000):
    base = sparse.random(rows, dim, 0.02, "csr", np.float32, np.random.default_rng(1))
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, s SPARSE[{dim}], year INTEGER)")
    assert warplite.add(db, "t", np.arange(rows), s=base, year=np.arange(rows) % 10) == rows
    return base


def test_search_is_the_product(db, monkeypatch):
    base = make(db)
    queries = sparse.random(9, 1000, 0.05, "csr", np.float32, np.random.default_rng(2))
    rowids, distances = warplite.search(db, "t", "s", queries, 7)
    assert rowids.shape == distances.shape == (9, 7)
    products = -(base.astype(float) @ queries.T.astype(float)).toarray()
    for q in range(9):
        order = np.lexsort((np.arange(500), products[:, q]))[:7]
        np.testing.assert_allclose(distances[q], products[order, q], rtol=1e-12)
        assert (rowids[q] == order).all()
    assert (warplite.search(db, "t", "s", queries, 7, filter="year = 3")[0] % 10 == 3).all()
    monkeypatch.setattr("warplite._search._BATCH_BYTES", 3 * 8 * 7)
    again = warplite.search(db, "t", "s", queries.tocoo(), 7)
    assert (again[0] == rowids).all() and (again[1] == distances).all()


def test_rows_come_back(db):
    base = make(db, 20)
    for row, (blob,) in enumerate(db.execute("SELECT s FROM t ORDER BY id")):
        pairs = np.frombuffer(blob, "<u4").reshape(-1, 2)
        assert (pairs[:, 0] == base[row].indices).all()
        assert (pairs[:, 1].copy().view("<f4") == base[row].data).all()
    assert warplite.add(db, "t", [100, 101], s=['{"1":2}', None], year=[1, 2]) == 2


def test_what_is_refused(db):
    make(db, 5)
    with pytest.raises(ValueError, match=r"t\.s takes vectors of 1000 elements \(sparse\); these have 1001"):
        warplite.search(db, "t", "s", sparse.csr_matrix((1, 1001)), 1)
    with pytest.raises(ValueError, match=r"t\.s takes a SciPy sparse matrix"):
        warplite.search(db, "t", "s", np.zeros((1, 1000)), 1)
    assert warplite.search(db, "t", "s", sparse.csr_matrix((0, 1000)), 3)[0].shape == (0, 3)
