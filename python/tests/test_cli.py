"""The command line, as a person at a terminal meets it."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warplite

pytest.importorskip("click")

from warplite.cli import importing  # noqa: E402


def rows(sql):
    return [tuple(row) for row in warplite.connect("a.db").execute(sql)]


def write_vectors(path, vectors):
    if path.endswith(".npy"):
        np.save(path, vectors)
    elif path.endswith("bin"):
        with open(path, "wb") as file:
            file.write(np.array(vectors.shape, "<i4").tobytes() + vectors.tobytes())
    else:
        head = np.full((len(vectors), 1), vectors.shape[1], "<i4").view(np.uint8)
        np.hstack([head, vectors.view(np.uint8)]).tofile(path)


@pytest.mark.parametrize(
    "path, dtype, kind",
    [("a.npy", "<f4", "FLOAT"), ("a.npy", "<f2", "FLOAT16"), ("a.npy", "<f8", "FLOAT"), ("a.npy", "?", "BIT"),
     ("a.fbin", "<f4", "FLOAT"), ("a.i8bin", "i1", "INT8"), ("a.u8bin", "u1", "FLOAT"),
     ("a.fvecs", "<f4", "FLOAT"), ("a.bvecs", "u1", "FLOAT"), ("a.ivecs", "<i4", "FLOAT")],
)  # fmt: skip
def test_import_of_vectors(run, path, dtype, kind):
    vectors = np.random.default_rng(1).integers(0, 2, (50, 8)).astype(dtype)
    write_vectors(path, vectors)
    assert "imported 50 rows" in run("import", path, "a.db", "t", "--batch", 7)
    assert f"{kind}[8]" in rows("SELECT sql FROM sqlite_master WHERE name = 't'")[0][0]
    assert rows("SELECT min(rowid), max(rowid), count(*) FROM t") == [(0, 49, 50)]
    for rowid in (0, 6, 7, 49):
        found, distances = warplite.search(warplite.connect("a.db"), "t", "embedding", vectors[rowid], 1)
        assert distances[0, 0] == 0 and (vectors[found[0, 0]] == vectors[rowid]).all()
    run("import", path, "a.db", "t")  # counts on
    assert rows("SELECT max(rowid), count(*) FROM t") == [(99, 100)]


def test_import_goes_on_after_it_was_ended(run, monkeypatch):
    np.save("a.npy", np.arange(100, dtype="f4").reshape(50, 2))
    insert, calls = importing._Import._insert, []

    def ends(self, arrays):
        calls.append(1)
        if len(calls) == 4:
            insert(self, {name: array[:5] for name, array in arrays.items()})
            raise OSError("the lights went out")
        return insert(self, arrays)

    monkeypatch.setattr(importing._Import, "_insert", ends)
    assert "lights" in run("import", "a.npy", "a.db", "t", "--batch", 10, code=1)
    monkeypatch.setattr(importing._Import, "_insert", insert)
    assert "going on after 35 rows" in run("import", "a.npy", "a.db", "t", "--batch", 10)
    vectors = np.array([json.loads(v) for (v,) in rows("SELECT vec_to_json(embedding) FROM t ORDER BY rowid")])
    assert (vectors == np.load("a.npy")).all()
    assert rows("SELECT name FROM sqlite_master WHERE name LIKE 'warplite%'") == []


def test_import_goes_on_after_others_have_written(run, monkeypatch):
    np.save("a.npy", np.arange(100, dtype="f4").reshape(50, 2))
    insert = importing._Import._insert

    def ends(self, arrays):
        if self.done == 20:
            raise OSError("the lights went out")
        return insert(self, arrays)

    monkeypatch.setattr(importing._Import, "_insert", ends)
    assert "the 20 before are in t" in run("import", "a.npy", "a.db", "t", "--batch", 10, code=1)
    monkeypatch.setattr(importing._Import, "_insert", insert)
    warplite.add(warplite.connect("a.db"), "t", [20, 31], embedding=[[-1, -1]] * 2)
    assert "going on after 20 rows" in run("import", "a.npy", "a.db", "T", "--batch", 10)
    assert rows("SELECT count(*), min(rowid), max(rowid) FROM t") == [(52, 0, 61)]
    monkeypatch.setattr(importing._Import, "_insert", ends)
    run("import", "a.npy", "a.db", "t", "--batch", 10, code=1)
    monkeypatch.setattr(importing._Import, "_insert", insert)
    assert "imported 50 rows" in run("import", "a.npy", "a.db", "t", "--restart")
    assert rows("SELECT count(*) FROM t") == [(52 + 20 + 50,)]
    assert rows("SELECT name FROM sqlite_master WHERE name LIKE 'warplite%'") == []


def test_import_that_fails_at_once_leaves_nothing(run):
    with open("a.csv", "w") as file:
        file.write('id,e\n1,"[1, 2]"\n1,"[1, 2]"\n')
    output = run("import", "a.csv", "a.db", "t", "--id", "id", code=1)
    assert "UNIQUE" in output.upper() and "before are in" not in output
    assert rows("SELECT name FROM sqlite_master") == []


def test_id_is_a_column_of_the_file(run):
    with open("a.csv", "w") as file:
        file.write('Id,e\n7,"[1, 2]"\n')
    output = run("import", "a.csv", "a.db", "t", "--id", "key", code=1)
    assert (
        output == "Error: the file has no column key; it has Id, e\n" and rows("SELECT name FROM sqlite_master") == []
    )
    run("import", "a.csv", "a.db", "t", "--id", "ID")
    assert rows("SELECT rowid, id FROM t") == [(7, 7)]


@pytest.mark.parametrize(
    "cells, declared",
    [("1 -20 9223372036854775807 -9223372036854775808", "INTEGER"), ("1.5 1e3 -.5 3. 0.25 -1E-9 0", "REAL"),
     ("+1 2", "TEXT"), ("007 2", "TEXT"), ("-0 2", "REAL"), ("-01.5 2", "TEXT"), ("9223372036854775808 1", "REAL"),
     ("9223372036854775809 1", "TEXT"), ("1e3 9007199254740993", "TEXT"), ("1e3 9007199254740992", "REAL"),
     ("1e999 1", "TEXT"), ("nan 1", "TEXT"), ("inf 1", "TEXT"), ("1_000 1", "TEXT"), ("٣ 1", "TEXT"), (". 1", "TEXT"),
     ("1" * 5000 + " 1", "TEXT")],
)  # fmt: skip
def test_numbers_come_back_as_they_were_written(run, cells, declared):
    with open("a.csv", "w", encoding="utf-8") as file:
        file.write("n,e\n" + "".join(f'{cell},"[1]"\n' for cell in cells.split()))
    run("import", "a.csv", "a.db", "t")
    assert f'"n" {declared}' in rows("SELECT sql FROM sqlite_master WHERE name = 't'")[0][0]
    kind = {"INTEGER": int, "REAL": float, "TEXT": str}[declared]
    assert [n for (n,) in rows("SELECT n FROM t ORDER BY rowid")] == [kind(cell) for cell in cells.split()]


def test_numbers_of_json(run):
    with open("a.jsonl", "w") as file:
        for n, big in ((1, 2**70), (2.5, 1), (float("nan"), None)):
            file.write(json.dumps({"e": [1], "n": n, "big": big, "odd": 2**70 + 1}) + "\n")
    run("import", "a.jsonl", "a.db", "t")
    assert rows("SELECT n, big, odd FROM t") == [
        (1.0, 2.0**70, str(2**70 + 1)), (2.5, 1.0, str(2**70 + 1)), (None, None, str(2**70 + 1))
    ]  # fmt: skip


def test_long_cells_of_csv(run):
    vector, text = [i / 7 for i in range(20_000)], "x" * 300_000
    with open("a.csv", "w") as file:
        file.write(f'e,text\n"{vector}",{text}\n')
    run("import", "a.csv", "a.db", "t")
    assert rows("SELECT length(e), length(text) FROM t") == [(80_000, 300_000)]


@pytest.mark.parametrize("path, dtype", [("a.fvecs", "<f4"), ("a.bvecs", "u1"), ("a.ivecs", "<i4")])
def test_records_of_other_lengths_are_refused(run, path, dtype):
    vectors = np.ones((50, 8), dtype)
    write_vectors(path, vectors)
    stride = 4 + vectors[0].nbytes
    with open(path, "r+b") as file:
        file.seek(36 * stride)
        file.write(np.int32(7).tobytes())
    output = run("import", path, "a.db", "t", "--batch", 10, code=1)
    assert f"Error: {path}: record 37 has 7 elements, the first one 8" in output
    assert rows("SELECT count(*) FROM t") == [(30,)]


def test_vectors_that_come_late(run):
    with open("a.jsonl", "w") as file:
        for i in range(2500):
            file.write(json.dumps({"e": [i, 1] if i > 2100 else None, "n": None}) + "\n")
    run("import", "a.jsonl", "a.db", "t")
    assert rows("SELECT count(*), count(e), count(n) FROM t") == [(2500, 399, 0)]
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    vectors = [None] * 2100 + [[i, 1] for i in range(400)]
    columns = {
        "a.e": pa.array(vectors, pa.list_(pa.float32())),
        "none": pa.array([None] * 2500, pa.list_(pa.float32())),
    }
    pq.write_table(pa.table(columns), "a.parquet")
    run("import", "a.parquet", "a.db", "u")
    assert rows('SELECT count(*), count("a.e"), count("none") FROM u') == [(2500, 400, 0)]


def test_changed_file_does_not_go_on(run, monkeypatch):
    np.save("a.npy", np.zeros((50, 2)))
    monkeypatch.setattr(importing._Import, "_finish", lambda self: None)
    run("import", "a.npy", "a.db", "t", "--batch", 10)
    np.save("a.npy", np.zeros((60, 2)))
    assert "has changed since 50 of its rows" in run("import", "a.npy", "a.db", "t", code=1)
    assert "imported 60 rows" in run("import", "a.npy", "a.db", "t", "--restart")


def test_csv(run):
    with open("a.csv", "w") as file:
        file.write('id,title,e,year,price,code\n7,"a, b","[1, 2]",2020,1.5,007\n9,c,"[3, 4]",,2,010\n')
    run("import", "a.csv", "a.db", "t", "--id", "id", "--distance", "l1", "--declare", "title TEXT index=words")
    assert rows("SELECT id, title, vec_to_json(e), year, price, code FROM t") == [
        (7, "a, b", "[1.000000,2.000000]", 2020, 1.5, "007"),
        (9, "c", "[3.000000,4.000000]", None, 2.0, "010"),
    ]
    assert rows("SELECT rowid, distance FROM t WHERE e MATCH '[3, 3]'") == [(9, 1.0), (7, 3.0)]


def test_json_lines(run):
    with open("a.jsonl", "w") as file:
        for i in range(30):
            file.write(json.dumps({"title": f"row {i}", "e": [i, 1], "good": i % 2 == 0, "n": i or None}) + "\n")
    run("import", "a.jsonl", "a.db", "t", "--batch", 4)
    assert rows("SELECT title, good, n FROM t WHERE rowid IN (0, 29)") == [("row 0", 1, None), ("row 29", 0, 29)]
    sql = rows("SELECT sql FROM sqlite_master WHERE name = 't'")[0][0]
    assert '"e" FLOAT[2]' in sql and '"good" BOOLEAN' in sql and '"n" INTEGER' in sql
    with open("b.jsonl", "w") as file:
        file.write('{"e": [1, 2]}\n' * 1000 + '{"e": [1, 2], "late": 1}\n')
    assert "late: in none of the first 1,000 rows" in run("import", "b.jsonl", "a.db", "v", code=1)
    with open("b.jsonl", "w") as file:
        file.write('{"e": [1, 2]}\n{"e": [1,')
    assert "b.jsonl, line 2" in run("import", "b.jsonl", "a.db", "u", code=1)


@pytest.mark.parametrize(
    "path, text, why",
    [("a.csv", 'b,a,a\n1,2,"[1,2]"\n', "a.csv: two columns have one name: 'a', 'a'"),
     ("a.csv", 'A,a,e\n1,2,"[1,2]"\n', "a.csv: two columns have one name: 'A', 'a'"),
     ("a.jsonl", '{"e": [1]}\n{"E": [2]}\n', "a.jsonl: two columns have one name: 'e', 'E'"),
     ("a.jsonl", '{"n": 0, "e": [1]}\n{"e": [1], "e": [2]}\n', "a.jsonl, line 2: two values have one name: 'e'"),
     ("a.jsonl", '{"e": [1, 2]}\n\n{"e": [1, 2, 3]}\n',
      "a.jsonl, column e, line 3: expected 2 elements, as in line 1, got 3"),
     ("a.jsonl", '{"e": [1, 2]}\n{"n": 0}\n{"e": []}\n',
      "a.jsonl, column e, line 3: expected 2 elements, as in line 1, got 0"),
     ("a.csv", 'n,e\n1,"[1,\n2]"\n2,"[1]"\n', "a.csv, column e, line 4: expected 2 elements, as in line 3, got 1"),
     ("a.jsonl", '{"t": "\u00e9"}\n{"t": "\udce9"}\n', "a.jsonl, line 2, byte 8: the text is not UTF-8"),
     ("a.csv", 'n,t\n1,"\n\u00e9"\n2,\udce9\n', "a.csv, line 4, byte 3: the text is not UTF-8")],
)  # fmt: skip
def test_file_is_refused_rather_than_read_otherwise(run, path, text, why):
    with open(path, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
    output = run("import", path, "a.db", "t", code=1)
    assert output.startswith(f"Error: {why}") and output.count("\n") == 1, output
    assert rows("SELECT name FROM sqlite_master") == []


def test_lists_of_unequal_lengths_are_text_where_it_is_said(run):
    with open("a.jsonl", "w") as file:
        file.write('{"e": [1, 2], "tags": [1]}\n{"e": [3, 4], "tags": [1, 2]}\n')
    assert "--declare 'tags TEXT'" in run("import", "a.jsonl", "a.db", "t", code=1)
    run("import", "a.jsonl", "a.db", "t", "--declare", "tags TEXT")
    run("import", "a.jsonl", "a.db", "t")  # into the column that is there
    assert rows("SELECT tags FROM t") == [("[1]",), ("[1, 2]",)] * 2
    with open("b.jsonl", "w") as file:
        file.write('{"tags": [1]}\n{"tags": ["a", 2]}\n')  # no vectors
    run("import", "b.jsonl", "a.db", "u")
    assert rows("SELECT tags FROM u") == [("[1]",), ('["a", 2]',)]


def test_row_that_is_refused_is_said_to_be_in_which_batch(run):
    with open("a.jsonl", "w") as file:
        for i in range(30):
            file.write(json.dumps({"e": [i, 1] if i != 17 else [1, 2, 3]}) + "\n")
    output = run("import", "a.jsonl", "a.db", "t", "--declare", "e FLOAT[2]", "--batch", 10, code=1)
    assert "of rows 11 to 20" in output and "t.e" in output and "the 10 before are in t" in output, output
    assert rows("SELECT count(*) FROM t") == [(10,)]


def test_parquet(run):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    vectors = np.random.default_rng(2).standard_normal((40, 4)).astype("f4")
    for type_ in (pa.list_(pa.float32(), 4), pa.list_(pa.float32())):
        table = pa.table({"e": pa.array(vectors.tolist(), type_), "title": [None] + ["x"] * 39, "year": range(40)})
        pq.write_table(table, "a.parquet", row_group_size=15)
        name = f"t{hasattr(type_, 'list_size')}"
        run("import", "a.parquet", "a.db", name, "--batch", 7)
        assert rows(f"SELECT count(*), count(title), max(year) FROM {name}") == [(40, 39, 39)]
        rowids, _ = warplite.search(warplite.connect("a.db"), name, "e", vectors, 1)
        assert rowids[:, 0].tolist() == list(range(40))


def test_parquet_of_other_types(run):
    pa = pytest.importorskip("pyarrow")
    import datetime
    import decimal

    import pyarrow.parquet as pq

    columns = {
        "day": [datetime.date(2020, 1, 2), None],
        "at": [datetime.datetime(2020, 1, 2, 3), None],
        "price": [decimal.Decimal("1.50"), None],
        "tags": [["a", "b"], None],
        "who": [{"name": "x"}, None],
        "raw": [b"ab", None],
        "good": [True, None],
        "e": pa.array([[1, 2], None], pa.list_(pa.int8())),
    }
    pq.write_table(pa.table(columns), "a.parquet")
    run("import", "a.parquet", "a.db", "t")
    first, second = rows("SELECT day, at, price, tags, who, raw, good, vec_to_json(vec_int8(e)) FROM t")
    assert first == ("2020-01-02", "2020-01-02 03:00:00", "1.50", '["a", "b"]', '{"name": "x"}', b"ab", 1, "[1,2]")
    assert second == (None,) * 8


def test_search(run):
    with open("a.jsonl", "w") as file:
        for i in range(10):
            file.write(json.dumps({"e": [i, 0], "title": f"row {i}", "year": 2000 + i}) + "\n")
    run("import", "a.jsonl", "a.db", "t", "--declare", "title TEXT distance=edit")
    hits = [json.loads(line) for line in run("search", "a.db", "t", "e", "[3, 0]", "-k", 2, "--json").splitlines()]
    assert hits[0] == {"rowid": 3, "distance": 0.0, "title": "row 3", "year": 2003} and len(hits) == 2
    assert "row 9" in run("search", "a.db", "t", "e", "--row", 0, "--where", "year > 2008", "-k", 1)
    assert json.loads(run("search", "a.db", "t", "title", "raw 7", "-k", 1, "--json"))["rowid"] == 7
    np.save("q.npy", np.array([[4.2, 0], [9, 0]]))
    lines = run("search", "a.db", "t", "embedding", "--file", "q.npy", "-k", 2, code=1)
    assert "embedding is no column" in lines
    lines = run("search", "a.db", "t", "e", "--file", "q.npy", "-k", 2, "--option", "exact=true").splitlines()
    assert [json.loads(line)["rowid"] for line in lines] == [4, 5, 9, 8]
    assert "t " in run("info", "a.db") and "float32[2]" in run("info", "a.db")


def test_search_by_a_file_without_a_vector_somewhere(run):
    np.save("a.npy", np.eye(3))
    run("import", "a.npy", "a.db", "t")
    with open("q.jsonl", "w") as file:
        file.write('{"embedding": [1, 0, 0]}\n' * 10_004 + '{"embedding": null}\n{"embedding": [1, 0, 0]}\n')
    lines = run("search", "a.db", "t", "embedding", "--file", "q.jsonl", "-k", 1, code=1).splitlines()
    assert "Error: q.jsonl, row 10005: a vector was expected, got none" in lines and len(lines) > 10_000
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"embedding": pa.array([None, [1, 0, 0]], pa.list_(pa.float32()))}), "q.parquet")
    assert "q.parquet, row 1: " in run("search", "a.db", "t", "embedding", "--file", "q.parquet", code=1)


def test_tables_whose_names_have_dots(run):
    np.save("a.npy", np.eye(3))
    for table in ("v1.t", "main.u"):
        for _ in range(2):
            run("import", "a.npy", "a.db", table)
        assert json.loads(run("search", "a.db", table, "embedding", "--row", 1, "-k", 1, "--json"))["rowid"] == 1
        assert run("search", "a.db", table, "embedding", "--file", "a.npy", "-k", 1).count("\n") == 3
    lines = run("info", "a.db").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["u", "6", "embedding"], ["v1.t", "6", "embedding"]]


def test_a_reader_that_leaves_is_no_error(run):
    np.save("a.npy", np.zeros((2000, 2)))
    run("import", "a.npy", "a.db", "t")
    command = [sys.executable, "-m", "warplite", "search", "a.db", "t", "embedding", "--file", "a.npy", "-k", "50"]
    search = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert search.stdout.readline()
    search.stdout.close()
    assert search.stderr.read() == b""
    search.stderr.close()
    search.wait()


def test_what_goes_wrong_is_said_in_a_line(run):
    np.save("a.npy", np.zeros((5, 2)))
    run("import", "a.npy", "a.db", "t")
    open("b.fvecs", "wb").write(b"\2\0\0\0abc")
    open("b.xyz", "wb").close()
    open("b.jsonl", "wb").close()
    sqlite3.connect("plain.db").execute("CREATE TABLE x(a)")
    for arguments, why in (
        (("search", "gone.db", "t", "e", "[1]"), "no such file: gone.db"),
        (("search", "a.db", "u", "e", "[1]"), "no such table: u"),
        (("search", "a.db", "t", "embedding", "[1]"), "2"),
        (("search", "a.db", "t", "embedding", "--row", 77), "no row 77"),
        (("search", "a.db", "t", "gone", "--row", 1), "no such column"),
        (("search", "a.db", "t", "gone", "[1]"), "no such column"),
        (("import", "b.fvecs", "a.db", "t"), "not whole vectors"),
        (("import", "b.jsonl", "a.db", "t"), "b.jsonl holds no rows"),
        (("import", "b.xyz", "a.db", "t"), ".parquet .csv"),
        (("import", "a.npy", "a.db", "t", "--distance", "l1"), "there already"),
        (("import", "a.npy", "a.db", "v", "--declare", "x TEXT"), "no column x"),
        (("info", "plain.db"), "no warp tables"),
    ):
        output = run(*arguments, code=1)
        assert why in output and output.startswith("Error: ") and output.count("\n") == 1, output
    run("search", "a.db", "t", "embedding", code=2)


def test_info_and_doctor(run, monkeypatch):
    assert "warplite 0" in run("info")
    output = run("doctor")
    assert "loads warplite" in output and "cpu " in output and warplite.loadable_path() in output
    monkeypatch.setenv("WARPLITE_CUDA_PLUGIN", "/gone/warplite_cuda.so")
    assert "/gone/warplite_cuda.so: not there; pip install 'warplite[cuda]'" in run("doctor")
    monkeypatch.setattr("warplite.cli.about.MODULES", ("apsw_gone",))
    assert "not installed" in run("doctor", code=1)


def test_doctor_says_why_a_library_is_not_loaded(run, monkeypatch, tmp_path):
    (tmp_path / "other.so").write_bytes(b"no library")
    monkeypatch.setattr("warplite._library.FOLDER", str(tmp_path))
    monkeypatch.setenv("WARPLITE_EXTENSION", "other.so")
    output = run("doctor", code=1)
    assert "other.so.so" not in output and "other.so cannot be loaded" in output
    if sys.platform == "linux":
        assert "other.so: file too short" in output


def test_info_of_every_kind_of_table(run):
    db = warplite.connect("a.db")
    db.execute('CREATE VIRTUAL TABLE "odd ""USING"" name" USING "warp"(e FLOAT[2])')
    db.execute("CREATE VIRTUAL TABLE b USING vec0(e float[3], +note text)")
    db.execute("CREATE VIRTUAL TABLE [c]USING`WARP`(e f16[4])")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(using, warp)")
    db.execute("CREATE TABLE plain(x DEFAULT 'CREATE VIRTUAL TABLE t USING warp(')")
    sql = (Path(__file__).parents[2] / "tests" / "vec0" / "docs.sql").read_text()
    db.executescript(sql)
    db.close()
    output = run("info", "a.db")
    assert [line.split()[0] for line in output.splitlines() if "float" in line] == ["b", "c", "docs", "odd"]
    assert "SELECT warp_import_vec0('docs', 'docs') converts it" in output


def test_bench_and_plot(run):
    output = run("bench", "--rows", 4000, "--dim", 16, "--queries", 50, "--index", "ivfflat(lists=64)", "--output", "b")
    assert "ivfflat(lists=64) nprobe=1 " in output and "exact" in output
    figures = [json.loads(line) for line in open("b")]
    curve = [figure["recall"] for figure in figures if figure["what"] == "index"]
    assert curve[0] < 0.99 and curve[-1] > 0.95
    assert "can be drawn" in run("plot", "b", "b.gif", code=2)
    pytest.importorskip("matplotlib")
    for picture in ("b.png", "b.svg"):
        run("plot", "b", picture)
    assert open("b.png", "rb").read(4) == b"\x89PNG" and "<svg" in open("b.svg").read(2000)
    np.save("a.npy", np.random.default_rng(1).standard_normal((1100, 4)))
    assert "1,000 x 4" in run("bench", "--file", "a.npy", "--queries", 100, "--index", "flat")
