"""Rows that SQLite's session extension carries from file to file."""

import random

import pytest

import warplite

apsw = pytest.importorskip("apsw")
if not hasattr(apsw, "Session"):
    pytest.skip("this apsw has no session extension", allow_module_level=True)

SEARCH = "SELECT rowid, distance FROM papers_idx WHERE e MATCH '[1, 3]' ORDER BY distance"


def changes_of(db, table, work):
    session = apsw.Session(db, "main")
    session.attach(table)
    with db:
        work()
    return session.changeset()


def test_an_index_follows_what_is_applied_to_its_table(tmp_path):
    here, there = (warplite.connect(str(tmp_path / f"{name}.db"), module="apsw") for name in "ab")
    for db in (here, there):
        db.execute("CREATE TABLE papers(id INTEGER PRIMARY KEY, e BLOB)")
        db.execute("CREATE VIRTUAL TABLE papers_idx USING warp(e FLOAT[2], content=papers)")
    dice = random.Random(1)

    def work():
        for _ in range(50):
            id_ = dice.randrange(100)
            if dice.random() < 0.3:
                here.execute("DELETE FROM papers WHERE id = ?", (id_,))
            else:
                vector = f"[{dice.randrange(9)}, {dice.randrange(9)}]"
                here.execute("INSERT OR REPLACE INTO papers VALUES (?, vec_f32(?))", (id_, vector))

    for _ in range(20):
        apsw.Changeset.apply(changes_of(here, "papers", work), there)
        assert here.execute(SEARCH).fetchall() == there.execute(SEARCH).fetchall() != []
        there.execute("INSERT INTO papers_idx(papers_idx) VALUES ('integrity-check')")


def test_a_table_is_carried_to_the_same_file(tmp_path):
    here = warplite.connect(str(tmp_path / "a.db"), module="apsw")
    here.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], +note)")
    here.execute("INSERT INTO t(e, note) VALUES ('[1, 2]', 'first')")
    there = warplite.connect(":memory:", module="apsw")
    there.deserialize("main", here.serialize("main"))

    def work():
        here.execute("INSERT INTO t(e, note) VALUES ('[3, 4]', 'second')")
        here.execute("DELETE FROM t WHERE note = 'first'")

    apsw.Changeset.apply(changes_of(here, None, work), there)
    search = "SELECT rowid, distance, note FROM t WHERE e MATCH '[3, 3]'"
    assert there.execute(search).fetchall() == here.execute(search).fetchall() == [(2, 1.0, "second")]
    there.execute("INSERT INTO t(t) VALUES ('integrity-check')")
