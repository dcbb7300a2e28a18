"""Several writers of one file: each waits for the others."""

import threading

import numpy as np
import pytest

import warplite
from warplite._documents import DocumentTable


@pytest.fixture(params=["delete", "wal"])
def path(request, driver, tmp_path):
    path = str(tmp_path / "a.db")
    db = warplite.connect(path, module=driver)
    db.execute(f"PRAGMA journal_mode = {request.param}").fetchall()
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
    db.execute("CREATE TABLE other(x)")
    db.close()
    return path


@pytest.fixture
def busy(driver, path):
    """Another connection of the same library (two do not see each other's locks) writes, and commits a moment after."""
    options = {} if driver == "apsw" else {"isolation_level": None, "check_same_thread": False}
    other = warplite.connect(path, module=driver, **options)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO other VALUES (1)")
    committer = threading.Timer(0.3, other.execute, ["COMMIT"])
    committer.start()
    yield
    committer.join()
    other.close()


def test_rows(driver, path, busy):
    db = warplite.connect(path, module=driver)
    assert warplite.add(db, "t", None, e=np.ones((2, 2))) == 2
    assert db.execute("SELECT count(*) FROM t").fetchone()[0] == 2


def test_documents(driver, path, busy):
    documents = DocumentTable(warplite.connect(path, module=driver), "documents", "cosine", None, None)
    documents.add(["a"], [[1, 2]], ["text"], [{}])
    assert documents.select(("1", [])) == [("a", "text", {})]


def test_deleted_documents(driver, path, request):
    DocumentTable(path, "documents", "cosine", None, None).add(["a"], [[1, 2]], ["text"], [{}])
    documents = DocumentTable(warplite.connect(path, module=driver), "documents", "cosine", None, None)
    request.getfixturevalue("busy")
    documents.delete(("1", []))
    assert documents.select(("1", [])) == []


@pytest.mark.parametrize("driver", ["sqlite3"])  # which these open
def test_imported_rows(path, busy, tmp_path):
    click_testing = pytest.importorskip("click.testing")
    from warplite.cli import main

    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    result = click_testing.CliRunner().invoke(main, ["import", str(tmp_path / "a.npy"), path, "t", "--column", "e"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("driver", ["sqlite3"])  # which these open
def test_sqlalchemys_transaction(path, busy):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from warplite.sqlalchemy import load_into

    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    load_into(engine)
    with engine.begin() as connection:
        warplite.add(connection, "t", None, e=np.ones((2, 2)))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 2
