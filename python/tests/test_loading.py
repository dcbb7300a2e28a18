"""Loading, and what is said where it cannot be done."""

import os
import subprocess
import sys

import pytest

import warplite


def version(connection):
    return connection.execute("SELECT warp_version()").fetchone()[0]


def test_load_twice_and_leave_loading_off(driver, db):
    warplite.load(db)
    assert version(db)
    with pytest.raises(Exception, match="not authorized"):
        db.execute("SELECT load_extension('nothing')").fetchall()


def test_connect_passes_options(driver, tmp_path):
    path = tmp_path / "a.db"
    warplite.connect(path, module=driver).close()
    options = {"flags": 1} if driver == "apsw" else {"uri": True, "timeout": 1}
    name = path if driver == "apsw" else f"file:{path}?mode=ro"
    connection = warplite.connect(name, module=driver, **options)
    with pytest.raises(Exception, match="(?i)readonly"):
        connection.execute("CREATE TABLE t(a)")


def test_module_that_cannot_load_names_the_ways_out(monkeypatch):
    class Connection:  # as of a Python built without --enable-loadable-sqlite-extensions
        __module__ = "sqlite3"
        execute = cursor = None

    with pytest.raises(warplite.LoadingNotSupportedError) as error:
        warplite.load(Connection())
    for way in ("pysqlite3-binary", "apsw", "--enable-loadable-sqlite-extensions", sys.executable):
        assert way in str(error.value)


@pytest.mark.parametrize("call", ["load", "search", "add"])
def test_what_is_no_connection_is_refused(call, tmp_path):
    arguments = {"load": (), "search": ("t", "e", [[1, 2]], 1), "add": ("t", None)}[call]
    for wrong in ("papers.db", tmp_path, None, sys):
        with pytest.raises(
            TypeError, match=r"an open connection was expected, as warplite.connect\(\) returns it, got"
        ):
            getattr(warplite, call)(wrong, *arguments)


def test_connect_takes_the_next_module(monkeypatch):
    import sqlite3

    apsw = pytest.importorskip("apsw")
    monkeypatch.setitem(sys.modules, "pysqlite3", None)
    monkeypatch.setattr(sqlite3, "Connection", type("Connection", (), {}))
    assert isinstance(warplite.connect(":memory:"), apsw.Connection)
    monkeypatch.setitem(sys.modules, "apsw", None)
    with pytest.raises(warplite.LoadingNotSupportedError, match="pip install apsw"):
        warplite.connect(":memory:")


def test_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("warplite._library.FOLDER", str(tmp_path))
    monkeypatch.setenv("WARPLITE_EXTENSION", str(tmp_path / "gone.so"))
    with pytest.raises(warplite.LibraryNotFoundError, match="gone.so"):
        warplite.loadable_path()
    (tmp_path / "warplite.so").touch()
    if sys.platform == "linux":
        assert warplite.loadable_path() == str(tmp_path / "warplite.so")  # beside comes first


def test_cuda_package_is_announced(monkeypatch, tmp_path):
    package = tmp_path / "warplite_cuda"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("WARPLITE_CUDA_PLUGIN", raising=False)
    warplite.connect(":memory:").close()
    assert "WARPLITE_CUDA_PLUGIN" not in os.environ  # the package has no plug-in for this platform
    plugin = package / ("warplite_cuda" + os.path.splitext(warplite.loadable_path())[1])
    plugin.write_bytes(b"no library")
    db = warplite.connect(":memory:")
    assert os.environ["WARPLITE_CUDA_PLUGIN"] == str(plugin)
    monkeypatch.delenv("WARPLITE_CUDA_PLUGIN")
    db.close()


def test_the_library_opens_the_announced_plugin(tmp_path):
    """In a process of its own: a library looks for its plug-in once."""
    package = tmp_path / "warplite_cuda"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / ("warplite_cuda" + os.path.splitext(warplite.loadable_path())[1])).write_bytes(b"no library")
    code = """
import warplite
db = warplite.connect(":memory:")
db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
db.execute("INSERT INTO t(e) VALUES ('[1, 2]')")
try:
    db.execute("SELECT * FROM warp_knn_search('t', 'e', '[1, 2]', 1, '{\\"device\\":\\"gpu\\"}')").fetchall()
except Exception as error:
    print(error)
print(db.execute("SELECT name, state FROM warp_devices()").fetchall())
"""
    environment = {name: value for name, value in os.environ.items() if name != "WARPLITE_CUDA_PLUGIN"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert os.path.join("warplite_cuda", "warplite_cuda") in run.stdout, run.stdout + run.stderr


def test_import_is_light():
    heavy = ["re", "numpy", "sqlite3", "click", "typing", "json"]
    code = f"import sys, warplite; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(warplite.__file__))},
    )
    assert run.stdout == "[]\n", run.stdout + run.stderr
