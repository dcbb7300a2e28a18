"""Servers that fork: each worker searches, whether the application was loaded before the fork or after it."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

import warplite

APPLICATION = """
import os, sqlite3
import flask, warplite

def answer(path):
    db = sqlite3.connect(path)
    warplite.load(db)
    rowids, _ = warplite.search(db, "t", "e", [[500.2, 0]], 3)
    db.execute("INSERT INTO log VALUES (?)", (os.getpid(),))
    db.commit()
    db.close()
    return rowids[0].tolist()

app = flask.Flask(__name__)
app.config["first"] = answer(os.environ["DATABASE"])  # before the fork, with --preload: threads, memory, the library

@app.route("/")
def nearest():
    return {"pid": os.getpid(), "rows": answer(os.environ["DATABASE"]), "first": app.config["first"]}
"""


@pytest.mark.parametrize("preload", [False, True])
def test_gunicorn(tmp_path, preload):
    import sqlite3

    pytest.importorskip("flask")
    pytest.importorskip("gunicorn")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    db = warplite.connect(tmp_path / "a.db")
    db.execute("PRAGMA journal_mode = wal")
    db.execute("CREATE TABLE log(pid INTEGER)")
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
    # Enough rows that a search is shared among threads.
    warplite.add(db, "t", range(400_000), e=np.stack([np.arange(400_000), np.zeros(400_000)], 1))
    db.close()
    (tmp_path / "application.py").write_text(APPLICATION)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "-w", "3", "application:app"]
    server = subprocess.Popen(
        command + ["--preload"] * preload,
        cwd=tmp_path,
        env={**os.environ, "DATABASE": str(tmp_path / "a.db")},
        stderr=open(tmp_path / "log", "w"),
    )
    try:
        answers = [ask(f"http://127.0.0.1:{port}/", tmp_path) for _ in range(60)]
    finally:
        server.terminate()
        server.wait(30)
    assert all(answer["rows"] == answer["first"] == [500, 501, 499] for answer in answers)
    assert len({answer["pid"] for answer in answers}) > 1
    (count,) = sqlite3.connect(tmp_path / "a.db").execute("SELECT count(*) FROM log").fetchone()
    assert (count == 61) if preload else (60 < count <= 63)


def ask(url, folder):
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode() + (folder / "log").read_text()) from error
        except OSError:
            time.sleep(0.1)
    raise AssertionError((folder / "log").read_text())


def test_multiprocessing_fork_after_a_search(tmp_path):
    """A child of a process that has searched, as of a notebook's: it opens its own connection."""
    code = """
import multiprocessing, warplite, numpy as np, sys

def nearest(path):
    db = warplite.connect(path)
    return warplite.search(db, "t", "e", np.zeros((5, 8)), 1)[0].ravel().tolist()

if __name__ == "__main__":
    path = sys.argv[1]
    db = warplite.connect(path)
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[8])")
    warplite.add(db, "t", None, e=np.arange(800_000).reshape(-1, 8))
    db.close()
    print(nearest(path))
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(pool.map(nearest, [path] * 8))
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "a.db"], capture_output=True, text=True, timeout=120)
    assert run.stdout == f"{[1] * 5}\n{[[1] * 5] * 8}\n", run.stdout + run.stderr


def test_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(
                "import warplite, numpy as np\n"
                "db = warplite.connect(':memory:')\n"
                "db.execute('CREATE VIRTUAL TABLE t USING warp(e FLOAT[4])')\n"
                "warplite.add(db, 't', None, e=np.eye(4))"
            ),
            nbformat.v4.new_code_cell("warplite.search(db, 't', 'e', np.eye(4), 1)[0].ravel().tolist()"),
        ]
    )
    nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=60, resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert notebook.cells[1].outputs[0].data["text/plain"] == "[1, 2, 3, 4]"
