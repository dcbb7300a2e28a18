"""sqlite-utils and pandas on warp tables, as on ordinary ones."""

import json

import numpy as np
import pytest

import warplite

CREATE = "CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, embedding FLOAT[2], title TEXT, year INTEGER)"


@pytest.fixture
def path(tmp_path):
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    db = warplite.connect(tmp_path / "a.db", module="sqlite3")
    db.execute(CREATE)
    warplite.add(
        db,
        "papers",
        [1, 2, 3],
        embedding=[[1, 1], [2, 2], [3, 3]],
        title=["red fish", "blue fish", "dog"],
        year=[1, 2, 3],
    )
    db.close()
    return str(tmp_path / "a.db")


@pytest.fixture
def sqlite_utils(path):
    """Returns what runs a command of sqlite-utils on the file and gives its output."""
    pytest.importorskip("sqlite_utils")
    from click.testing import CliRunner
    from sqlite_utils.cli import cli
    from sqlite_utils.plugins import pm

    import warplite.sqlite_utils as plugin

    def run(command, *arguments, **options):
        ran = CliRunner().invoke(cli, [command, path, *arguments], catch_exceptions=False, **options)
        assert ran.exit_code == 0, ran.output
        return ran.output

    known = plugin in pm.get_plugins()
    if not known:
        pm.register(plugin)
    yield run
    if not known:
        pm.unregister(plugin)


def test_sqlite_utils_commands(sqlite_utils):
    counts = {row["table"]: row["count"] for row in json.loads(sqlite_utils("tables", "--counts"))}
    assert counts["papers"] == 3
    tables = json.loads(sqlite_utils("tables", "--columns", "--schema"))
    assert tables[0] == {"table": "papers", "columns": ["id", "embedding", "title", "year"], "schema": CREATE}
    assert sqlite_utils("schema", "papers") == CREATE + "\n"
    assert json.loads(
        sqlite_utils("rows", "papers", "-c", "title", "--where", "year > 1", "--order", "title desc")
    ) == [
        {"title": "dog"},
        {"title": "blue fish"},
    ]
    assert json.loads(sqlite_utils("rows", "papers", "--limit", "1"))[0]["embedding"]["encoded"] == "AACAPwAAgD8="
    new = [{"id": 7, "embedding": "[9, 9]", "title": "new", "year": 5}]
    sqlite_utils("insert", "papers", "-", input=json.dumps(new))
    sqlite_utils("insert", "papers", "-", "--replace", "--pk", "id", input=json.dumps([{**new[0], "title": "newer"}]))
    sqlite_utils("convert", "papers", "title", "value.upper()")
    nearest = "SELECT id, title FROM papers WHERE embedding MATCH '[8, 8]' AND k = 1"
    assert json.loads(sqlite_utils("query", nearest)) == [{"id": 7, "title": "NEWER"}]
    assert "Distinct values: 4" in sqlite_utils("analyze-tables", "papers")
    for command in ("indexes", "triggers", "views", "optimize", "vacuum", "analyze"):
        sqlite_utils(command)
    sqlite_utils("drop-table", "papers")
    assert not [row for row in json.loads(sqlite_utils("tables")) if "papers" in row["table"]]


def test_sqlite_utils_search(sqlite_utils):
    """By words: in a warp table, and in a table that has a warp index, too."""
    sqlite_utils("enable-fts", "papers", "title")
    assert [row["id"] for row in json.loads(sqlite_utils("search", "papers", "fish"))] == [1, 2]
    sqlite_utils("query", "CREATE TABLE documents AS SELECT id, embedding, title FROM papers")
    sqlite_utils("transform", "documents", "--pk", "id")
    sqlite_utils(
        "query", "CREATE VIRTUAL TABLE found USING warp(embedding FLOAT[2], content=documents, content_rowid=id)"
    )
    sqlite_utils("enable-fts", "documents", "title", "--create-triggers")
    row = {"id": 9, "embedding": "[5, 5]", "title": "fish of the day"}
    sqlite_utils("insert", "documents", "-", input=json.dumps([row]))
    assert sorted(row["id"] for row in json.loads(sqlite_utils("search", "documents", "fish"))) == [1, 2, 9]
    nearest = "SELECT rowid FROM found WHERE embedding MATCH '[6, 6]' AND k = 1"
    assert json.loads(sqlite_utils("query", nearest)) == [{"rowid": 9}]


def test_sqlite_utils_library(path):
    Database = pytest.importorskip("sqlite_utils").Database
    db = Database(warplite.connect(path, module="sqlite3"))
    papers = db["papers"]
    assert (papers.pks, papers.count, papers.virtual_table_using) == (["id"], 3, "WARP")
    assert papers.columns_dict == {"id": int, "embedding": bytes, "title": str, "year": int}
    assert papers.insert({"embedding": "[4, 4]", "title": "one more"}).last_pk == 4
    papers.insert_all({"embedding": f"[{i}, {i}]", "title": "many"} for i in range(250))
    papers.update(4, {"year": 1984})
    papers.delete(1)
    papers.delete_where("title = 'many' AND id % 2 = 0")
    assert (papers.get(4)["year"], papers.count, len(list(papers.rows_where("year IS NULL")))) == (1984, 128, 125)
    assert papers.triggers == papers.indexes == papers.foreign_keys == []


@pytest.mark.parametrize("by", ["sqlite3", "sqlalchemy"])
def test_pandas(path, by):
    pandas = pytest.importorskip("pandas")
    if by == "sqlite3":
        connection = warplite.connect(path, module="sqlite3")
    else:
        connection = pytest.importorskip("sqlalchemy").create_engine(f"sqlite:///{path}")
        from warplite.sqlalchemy import load_into

        load_into(connection)
    frame = pandas.DataFrame(
        {
            "embedding": [np.array([i, 0], "<f4").tobytes() for i in range(10, 14)],
            "title": [None, "b", "c", "d"],
            "year": pandas.array([2001, 2002, None, 2004], dtype="Int64"),
        }
    )
    for options in ({}, {"method": "multi"}, {"chunksize": 3}):
        assert frame.to_sql("papers", connection, if_exists="append", index=False, **options) == 4
    frame.index = pandas.Index([100, 101, 102, 103], name="id")
    assert frame.to_sql("papers", connection, if_exists="append") == 4
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("papers", connection, if_exists="fail")
    sql = (
        "SELECT id, title, year, distance FROM papers WHERE embedding MATCH ? AND year > 2001 ORDER BY distance LIMIT 4"
    )
    near = pandas.read_sql(sql, connection, params=(np.array([11, 0], "<f4").tobytes(),))
    assert near["id"].tolist() == [5, 9, 13, 101] and near["distance"].tolist() == [0.0] * 4
    whole = pandas.read_sql("SELECT * FROM papers", connection, index_col="id")
    assert whole.loc[100:, ["embedding", "title"]].equals(frame[["embedding", "title"]])
    assert whole.shape == (19, 3) and whole["year"].isna().sum() == 4
    if by == "sqlalchemy":
        assert pandas.read_sql_table("papers", connection).shape == (19, 4)
