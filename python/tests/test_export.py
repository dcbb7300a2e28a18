"""Files that a table's rows become, and the tables that these become again."""

import json

import numpy as np
import pytest

import warplite

KINDS = {"FLOAT": "<f4", "FLOAT16": "<f2", "BFLOAT16": "<f4", "INT8": "i1", "BIT": "?"}
COLUMNS = "id INTEGER PRIMARY KEY, e FLOAT[3], year INTEGER, price REAL, title TEXT, good BOOLEAN, +raw BLOB, +any"


@pytest.fixture
def db(run):
    db = warplite.connect("a.db")
    db.execute(f"CREATE VIRTUAL TABLE t USING warp({COLUMNS})")
    rows = [
        (3, "[0.1, 1e-30, -7]", 2020, 1.5, 'a "b",\n é', True, b"\0\xff", 7),
        (5, None, None, None, None, None, None, None),
        (70_000, "[1, 2, 3]", -1, 0.1, "x", False, b"", "y"),
    ]
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    db.commit()
    return db


def rows(db, table, columns="*"):
    return db.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall()


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_alone(run, kind):
    db = warplite.connect("a.db")
    vectors = np.random.default_rng(1).integers(0, 2, (25_000, 8)).astype(KINDS[kind])
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(e {kind}[8], n INTEGER)")
    warplite.add(db, "t", np.arange(25_000) * 3, e=vectors, n=range(25_000))
    assert "exported 25,000 rows" in run("export", "a.db", "t", "a.npy")
    found = np.load("a.npy")
    assert found.dtype == vectors.dtype and (found == vectors).all()
    run("export", "a.db", "t", "a.npy", "--where", "n >= 24990", "--column", "E")  # takes the file's place
    assert (np.load("a.npy") == vectors[24_990:]).all()
    run("export", "a.db", "t", "a.npy", "--where", "n < 0")
    assert np.load("a.npy").shape == (0, 8) and np.load("a.npy").dtype == vectors.dtype


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_rows_come_back(run, db, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    assert "exported 3 rows" in run("export", "a.db", "t", f"a.{suffix}")
    run("import", f"a.{suffix}", "b.db", "u", "--id", "id", "--declare", "good BOOLEAN")
    other = warplite.connect("b.db")
    same = "rowid, id, e, year, price, title, good"
    assert rows(other, "u", same) == rows(db, "t", same)
    assert [tuple(row) for row in rows(other, "u", "raw, any")] == {
        "parquet": [(b"\0\xff", "7"), (None, None), (b"", "y")],
        "csv": [("00ff", "7"), (None, None), (None, "y")],
        "jsonl": [("00ff", "7"), (None, None), ("", "y")],
    }[suffix]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_vectors_of_every_kind_come_back(run, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    db = warplite.connect("a.db")
    declared = [f"{kind.lower()} {kind}[16]" for kind in KINDS] + ["terms SPARSE[100]"]
    db.execute(f"CREATE VIRTUAL TABLE t USING warp({', '.join(declared)})")
    random = np.random.default_rng(1)
    vectors = {kind: random.integers(0, 2, (50, 16)).astype(bool) for kind in KINDS}
    vectors["INT8"] = random.integers(-128, 128, (50, 16))
    for kind in ("FLOAT", "FLOAT16", "BFLOAT16"):
        vectors[kind] = random.standard_normal((50, 16)) * 10.0 ** random.integers(-3, 3, (50, 1))
    terms = [json.dumps({str(i): 0.1 + i, "99": 1e-20}) for i in range(50)]
    warplite.add(db, "t", None, **{kind.lower(): array for kind, array in vectors.items()}, terms=terms)
    db.execute("INSERT INTO t(float) VALUES (NULL)")
    db.commit()
    run("export", "a.db", "t", f"a.{suffix}", "--rowid")
    options = [word for text in declared for word in ("--declare", text)]
    run("import", f"a.{suffix}", "b.db", "t", "--id", "rowid", *options)
    columns = ", ".join(text.split()[0] for text in declared)
    assert rows(warplite.connect("b.db"), "t", f"rowid, {columns}") == rows(db, "t", f"rowid, {columns}")


def test_chosen_columns(run, db):
    run("export", "a.db", "t", "a.csv", "--column", "title", "--column", "E", "--where", "id = 70000", "--rowid")
    assert open("a.csv").read() == 'rowid,title,e\n70000,x,"[1.0, 2.0, 3.0]"\n'
    run("export", "a.db", "t", "a.jsonl", "--where", "id = 3")
    [line] = open("a.jsonl", encoding="utf-8")
    assert json.loads(line)["title"] == 'a "b",\n é' and '"good": true' in line and "[0.1, 1e-30, -7.0]" in line


def test_what_cannot_be_written_is_said(run, db):
    with open("a.npy", "w") as file:
        file.write("before")
    db.execute("CREATE VIRTUAL TABLE two USING warp(a FLOAT[2], b FLOAT[2], terms SPARSE[9])")
    for arguments, why in (
        (("t", "a.xyz"), "files of .npy .parquet .csv .jsonl can be written"),
        (("t", "a.npy"), "row 2 of 3 has no vector in e; --where 'e IS NOT NULL' leaves it out"),
        (("gone", "a.csv"), "no such table: gone"),
        (("t", "a.csv", "--column", "gone"), "t has no column gone; it has id, e, year"),
        (("t", "a.npy", "--column", "year"), ".npy takes one column of vectors, not none: see --column"),
        (("two", "a.npy"), ".npy takes one column of vectors, not a, b, terms"),
        (("two", "a.npy", "--column", "terms"), ".npy takes one column of vectors, not terms"),
        (("t", "a.csv", "--where", "gone = 1"), "no such column: gone"),
    ):
        assert f"Error: {why}" in run("export", "a.db", *arguments, code=1).replace("a.xyz: ", "")
    assert open("a.npy").read() == "before"
    run("export", "a.db", "t", "a.npy", "--where", "e IS NOT NULL")
    assert np.load("a.npy").shape == (2, 3)


def test_check_and_optimize(run, db):
    db.execute("CREATE VIRTUAL TABLE v USING vec0(a float[2])")
    db.commit()
    assert run("check", "a.db") == "t: ok\nv: ok\n" and run("check", "a.db", "V") == "v: ok\n"
    for i in range(5):
        run("optimize", "a.db", "t")
        warplite.add(db, "t", [100_000 + i], e=[[i, 1, 2]])
    assert [line.split()[0] for line in run("optimize", "a.db").splitlines()] == ["t:", "v:"]
    assert rows(db, "t_segments", "count(*)")[0] == (1,) and len(rows(db, "t")) == 8
    for command in ("check", "optimize"):
        assert "no such warp table: t_tail" in run(command, "a.db", "t_tail", code=1)
    db.execute("UPDATE t_blocks SET data = zeroblob(length(data))")
    db.commit()
    output = run("check", "a.db", code=1)
    assert "t" in output and "v: ok" in output and "Error: 1 of the tables failed the check" in output
