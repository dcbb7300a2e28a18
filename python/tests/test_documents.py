"""The table of documents beneath the vector stores."""

import datetime
import decimal
import re
import threading

import numpy as np
import pytest

import warplite
from warplite._conditions import joined, listed_texts
from warplite._documents import DocumentTable

ALL = ("1", [])


def documents(database, distance=None, columns=None, table="documents"):
    return DocumentTable(database, table, distance, None, columns)


def fill(table, metadatas, ids=None):
    ids = ids or [str(i) for i in range(len(metadatas))]
    table.add(ids, [[1.0, i] for i in range(len(ids))], [None] * len(ids), metadatas)


def ids_by(table, condition):
    searched = sorted(row[0] for row in table.search([1, 0], 10_000, condition))
    assert searched == sorted(row[0] for row in table.select(condition))
    return searched


@pytest.mark.parametrize(
    "made",
    ["CREATE TABLE documents(id INTEGER PRIMARY KEY, title TEXT)",
     "CREATE TABLE documents(id TEXT, embedding BLOB, content TEXT, metadata TEXT)",
     "CREATE VIEW documents AS SELECT 'a' AS id, x'' AS embedding, '' AS content, '{}' AS metadata",
     "CREATE VIRTUAL TABLE documents USING fts5(id, embedding, content, metadata)",
     "CREATE VIRTUAL TABLE documents USING warp(embedding FLOAT[2])"],
)  # fmt: skip
def test_tables_of_others_are_left_alone(db, made):
    early = documents(db)
    db.execute(made)
    why = "documents: a warp table with the columns id, embedding, content, metadata was expected, got CREATE"
    for call in (
        lambda: documents(db),
        lambda: fill(early, [{}]),
        lambda: early.search([1, 2], 1),
        lambda: early.select(ALL),
        lambda: early.delete(ALL),
        early.drop,
    ):
        with pytest.raises(ValueError, match=why):
            call()
    assert db.execute("SELECT sql FROM sqlite_master WHERE name = 'documents'").fetchone()[0] == made


def test_columns_and_distance_are_the_tables(tmp_path):
    fill(documents(tmp_path / "a.db", "l2", {"year": "INTEGER", "lang": "TEXT"}), [{"year": 2020, "lang": "en"}])
    other = documents(tmp_path / "a.db")
    assert other.distance == "l2" and other.columns == {"year": "INTEGER", "lang": "TEXT"}
    fill(other, [{"year": 2020, "lang": "de"}], ["other"])  # into the columns, too
    assert ids_by(documents(tmp_path / "a.db", columns={"year": "INT"}), other.compare("year", "==", 2020)) == [
        "0",
        "other",
    ]
    for wrong, why in (
        ({"distance": "cosine"}, "distance=l2, not cosine"),
        ({"columns": {"lang": "TEXT", "venue": "TEXT"}}, "no column venue"),
        ({"columns": {"year": "TEXT"}}, "year INTEGER, not TEXT"),
        ({"distance": "ip", "columns": {"Year": "INTEGER"}}, "no column Year; distance=l2, not ip"),
    ):
        with pytest.raises(ValueError, match=f"documents is there already, and has {why}"):
            documents(tmp_path / "a.db", **wrong)


def test_distance_is_read_as_it_was_written(db):
    for i, (options, distance) in enumerate(
        (("", "l2"), ("DISTANCE = Cosine", "cosine"), ("index=ivfflat(lists=3) distance_metric=ip", "ip"))
    ):
        columns = (
            f'id TEXT PRIMARY KEY, "embedding" FLOAT[2] {options}, +content TEXT, +metadata TEXT, n TEXT index=words'
        )
        db.execute(f"CREATE VIRTUAL TABLE d{i} USING warp({columns})")
        assert documents(db, table=f"d{i}").distance == distance


def test_column_that_is_gone_is_no_text(tmp_path):
    table = documents(tmp_path / "a.db", columns={"lang": "TEXT"})
    fill(table, [{"lang": "en"}, {"lang": "de"}])
    condition = table.compare("lang", "!=", "en")
    documents(tmp_path / "a.db").drop()
    fill(documents(tmp_path / "a.db"), [{"lang": "en"}, {"lang": "de"}])
    with pytest.raises(ValueError, match="no column lang"):
        table.delete(condition)
    with pytest.raises(Exception, match="no such column"):
        documents(tmp_path / "a.db").delete(condition)
    assert len(documents(tmp_path / "a.db").select(ALL)) == 2


@pytest.mark.parametrize("columns", [None, {"v": "INTEGER", "t": "TEXT"}])
def test_numbers_compare_with_numbers_and_texts_with_texts(db, columns):
    table = documents(db, columns=columns)
    fill(table, [{"v": 2019, "t": "2019"}, {"v": 2021, "t": "2021"}, {"v": True, "t": "x"}, {"v": None}, {}])
    for key, operator, value, ids in (
        ("v", "<", "2020", ""), ("v", "<=", "2021", ""), ("v", ">", "2020", ""), ("v", ">=", "", ""),
        ("v", "==", "2021", ""), ("v", "!=", "2021", "01234"), ("v", "in", ["2021"], ""), ("v", "nin", ["1"], "01234"),
        ("t", "<", 2020, ""), ("t", ">", 2020, ""), ("t", "==", 2019, ""), ("t", "!=", 2019, "01234"),
        ("t", "in", [2019], ""), ("t", "in", [2019, "x", None], "234"), ("t", "nin", [2019, "x"], "0134"),
        ("v", ">", 2020, "1"), ("v", "<=", 2019, "02"), ("v", "==", 1, "2"), ("v", "in", [2019.0, "2021"], "0"),
        ("t", ">", "2020", "12"), ("t", "<", "2020", "0"), ("v", ">", float("-inf"), "012"), ("v", "<", None, ""),
        ("v", "in", [float("inf"), 2019], "0"),
    ):  # fmt: skip
        assert ids_by(table, table.compare(key, operator, value)) == list(ids), (key, operator, value)


def test_dates_are_iso_texts(db):
    table = documents(db, columns={"day": "TEXT"})
    day, time = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3)
    fill(
        table, [{"day": day, "at": time, "deep": [{"np": np.datetime64("2020-01-02T03", "ns")}]}, {"at": np.arange(2)}]
    )
    assert [row[2] for row in table.select(ALL)] == [
        {"day": "2020-01-02", "at": "2020-01-02T03:00:00", "deep": [{"np": "2020-01-02T03:00:00"}]},
        {"at": [0, 1]},
    ]
    assert ids_by(table, table.compare("day", "==", day)) == ["0"]
    assert ids_by(table, table.compare("at", "<", datetime.datetime(2021, 1, 1))) == ["0"]
    for wrong, why in (
        ({"s": {1}}, "metadata['s']: a number, a text, a date, a list or a dict was expected, got {1}"),
        ({"s": [decimal.Decimal(1)]}, "metadata['s'][0]: a number, "),
        ({("a",): 1}, "metadata: keys are texts, got ('a',)"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"document 'x': {why}")):
            fill(table, [wrong], ["x"])


@pytest.mark.parametrize("columns", [None, {"name": "TEXT"}])
def test_texts_with_nul(db, columns):
    table = documents(db, columns=columns)
    fill(table, [{"name": "a"}, {"name": "b"}], ["a", "a\0b"])
    assert ids_by(table, table.among(["a\0b", "b"])) == ["a\0b"]
    assert ids_by(table, table.compare("name", "in", ["a\0", "b"])) == ["a\0b"]
    table.delete(table.among(["a\0b"]))
    assert ids_by(table, ALL) == ["a"]
    table.delete(table.among(["a\0"]))
    assert ids_by(table, ALL) == ["a"]


def test_values_that_are_refused_are_named(db):
    table = documents(db, columns={"tags": "TEXT"})
    with pytest.raises(ValueError, match=r"document 'b': metadata\['tags'\]: a number or a text .* got \['x'\]"):
        fill(table, [{"tags": "x"}, {"tags": ["x"]}], ["a", "b"])
    assert not table.exists()
    for operator, value in (("contains", "a\0b"), ("any", ["a", "a\0"]), ("all", [float("inf")])):
        with pytest.raises(ValueError, match="filter: name: SQLite reads no such value in JSON"):
            table.compare("name", operator, value)


def test_ids_are_lists_of_texts(db):
    table = documents(db)
    fill(table, [{}] * 3, ["d", "o", "doc"])
    for wrong, said in (("doc", "'doc'"), (b"d", "b'd'"), ([5], "among them 5"), (["d", None], "among them None")):
        with pytest.raises(ValueError, match=f"ids: a list of texts was expected, got {said}"):
            table.among(wrong)
        with pytest.raises(ValueError, match=f"ids: a list of texts was expected, got {said}"):
            table.add(wrong, [[1, 2]], [None], [{}])
    assert listed_texts(iter(["a"])) == ["a"]
    assert ids_by(table, ALL) == ["d", "doc", "o"]


def test_as_many_of_each(db):
    table = documents(db)
    for counts in ((2, 1, 2, 2), (1, 2, 2, 2), (2, 2, 1, 2), (2, 2, 2, 1), (0, 1, 1, 1)):
        ids, vectors, contents, metadatas = (
            list(of)[:n] for of, n in zip(("ab", [[1, 2]] * 2, "cd", [{}] * 2), counts)
        )
        with pytest.raises(ValueError, match="{} ids, {} embeddings, {} contents and {} metadatas".format(*counts)):
            table.add(ids, vectors, contents, metadatas)
    assert not table.exists()
    table.add([], [], [], [])
    assert not table.exists()


def test_first_documents_that_are_refused_leave_no_table(db):
    table = documents(db)
    with pytest.raises(Exception, match="embedding"):
        table.add(["a"], [[float("inf"), 1]], [None], [{}])
    assert not table.exists()
    table.add(["a"], [[1, 2, 3]], [None], [{}])


def test_callers_transaction_is_respected(db):
    table = documents(db)
    fill(table, [{"n": 1}], ["before"])
    db.execute("BEGIN")
    fill(table, [{"n": 2}], ["within"])
    table.delete(table.among(["before"]))
    assert ids_by(table, ALL) == ["within"]
    table.drop()
    assert table.select(ALL) == []
    fill(table, [{"n": 2}], ["anew"])
    db.execute("ROLLBACK")
    assert ids_by(table, ALL) == ["before"]


def test_several_begin_at_once(driver, tmp_path):
    tables = [documents(warplite.connect(tmp_path / "a.db", module=driver, **options(driver))) for _ in range(6)]
    barrier, failed = threading.Barrier(len(tables)), []

    def begin(i):
        barrier.wait()
        try:
            fill(tables[i], [{}], [str(i)])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert ids_by(tables[0], ALL) == list("012345")


def options(driver):
    return {} if driver == "apsw" else {"check_same_thread": False}


@pytest.mark.parametrize("columns", [None, {"n": "INTEGER"}])
def test_many_values_and_many_conditions(db, columns):
    table = documents(db, columns=columns)
    fill(table, [{"n": 1}, {"n": 1999}, {"n": 300_000}])
    assert ids_by(table, table.compare("n", "in", list(range(300_000)))) == ["0", "1"]
    assert ids_by(table, joined([table.compare("n", "==", i) for i in range(2000)], "OR")) == ["0", "1"]
    assert ids_by(table, joined([table.compare("n", "!=", i) for i in range(2, 3000)])) == ["0", "2"]
    assert ids_by(table, joined([table.compare("n", "==", i) for i in range(2000)], "NOT")) == ["2"]


def test_connections_with_factories_and_traces(db):
    if hasattr(db, "text_factory"):
        db.text_factory, db.row_factory = bytes, lambda cursor, row: {"row": row}
    else:
        db.row_trace = lambda cursor, row: {"row": row}
    table = documents(db, columns={"lang": "TEXT"})
    fill(table, [{"lang": "en"}], ["a"])
    assert documents(db).columns == {"lang": "TEXT"}
    assert table.select(ALL) == [("a", None, {"lang": "en"})]


def test_tables_in_schemas_and_with_dots(db):
    db.execute("ATTACH ':memory:' AS other")
    for name in ("other.docs", "main.docs", "docs.v1"):
        table = documents(db, table=name, columns={"n": "INTEGER"})
        fill(table, [{"n": 1}, {"n": 2}], [f"{name} 1", f"{name} 2"])
        table.delete(table.compare("n", "==", 1))
        assert ids_by(documents(db, table=name), table.compare("n", ">", 0)) == [f"{name} 2"]
