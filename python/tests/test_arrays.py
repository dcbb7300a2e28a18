"""Arrays in and out."""

import numpy as np
import pytest

import warplite

KINDS = ["FLOAT[16]", "FLOAT16[16]", "BFLOAT16[16]", "INT8[16]", "BIT[16]"]


def vectors(kind, rows, seed):
    random = np.random.default_rng(seed)
    if kind.startswith("BIT"):
        return random.integers(0, 2, (rows, 16)).astype(bool)
    if kind.startswith("INT8"):
        return random.integers(-128, 128, (rows, 16))
    return random.standard_normal((rows, 16))


def make(db, kind, rows=200):
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e {kind}, colour TEXT, year INTEGER)")
    base = vectors(kind, rows, 1)
    ids = np.arange(rows) * 3 + 10
    assert warplite.add(db, "t", ids, e=base, colour=["red", None] * (rows // 2), year=np.arange(rows)) == rows
    return ids, base


@pytest.mark.parametrize("kind", KINDS)
def test_search_is_what_sql_says(db, kind):
    ids, base = make(db, kind)
    queries = vectors(kind, 7, 2)
    rowids, distances = warplite.search(db, "t", "e", queries, 5)
    assert rowids.shape == distances.shape == (7, 5)
    assert rowids.dtype == np.int64 and distances.dtype == np.float64
    for q in range(7):
        text = str(queries[q].astype(float if "FLOAT" in kind else int).tolist())
        rows = db.execute("SELECT rowid, distance FROM t WHERE e MATCH ? AND k = 5", (text,)).fetchall()
        assert [tuple(row) for row in rows] == list(zip(rowids[q].tolist(), distances[q].tolist()))
    found, distances = warplite.search(db, "main.t", "E", base, 1)  # each row finds itself
    assert (distances == 0).all()
    if "FLOAT" in kind:
        assert (found[:, 0] == ids).all()


def test_fewer_rows_than_k(db):
    make(db, "FLOAT[16]", 2)
    rowids, distances = warplite.search(db, "t", "e", np.zeros(16), 4)
    assert rowids[0, 2:].tolist() == [-1, -1] and np.isnan(distances[0, 2:]).all()
    assert sorted(rowids[0, :2]) == [10, 13]
    rowids, distances = warplite.search(db, "t", "e", np.zeros((0, 16)), 4)
    assert rowids.shape == distances.shape == (0, 4)
    rowids, distances = warplite.search(db, "t", "e", np.zeros((3, 16)), 0)
    assert rowids.shape == distances.shape == (3, 0)


def test_batches_give_the_same(db, monkeypatch):
    make(db, "FLOAT[16]")
    queries = vectors("FLOAT[16]", 10, 3)
    whole = warplite.search(db, "t", "e", queries, 4)
    monkeypatch.setattr("warplite._search._BATCH_BYTES", 3 * 64)
    for one, other in zip(whole, warplite.search(db, "t", "e", queries, 4)):
        assert (one == other).all()


def test_options(db):
    make(db, "FLOAT[16] index=ivfflat(lists=8)")
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    db.execute("INSERT INTO t(t) VALUES ('train')")
    queries = vectors("FLOAT[16]", 20, 4)
    exact, _ = warplite.search(db, "t", "e", queries, 10, exact=True)
    few, _ = warplite.search(db, "t", "e", queries, 10, nprobe=1, device="cpu")
    assert (exact != few).any()
    with pytest.raises(Exception, match="nonsense"):
        warplite.search(db, "t", "e", queries, 10, nonsense=1)


def test_numbers_of_numpy_are_options(db):
    make(db, "FLOAT[16] index=ivfflat(lists=8)")
    queries = vectors("FLOAT[16]", 20, 4)
    given = warplite.search(db, "t", "e", queries, np.int64(5), recall=np.float32(0.5), exact=np.bool_(False))
    assert (given[0] == warplite.search(db, "t", "e", queries, 5, recall=0.5)[0]).all()
    given = warplite.search(db, "t", "e", queries, 5.0, nprobe=np.int64(3))
    assert (given[0] == warplite.search(db, "t", "e", queries, 5, nprobe=3)[0]).all()


@pytest.mark.parametrize("k", [-1, 2.5, np.float32(2.5), "2", None, float("nan"), float("inf")])
def test_k_is_a_whole_number(db, k):
    make(db, "FLOAT[16]", 2)
    with pytest.raises(ValueError, match="k: expected an integer, 0 or more, got"):
        warplite.search(db, "t", "e", np.zeros(16), k)


def test_filter_comes_before_k(db):
    ids, base = make(db, "FLOAT[16]")
    queries = vectors("FLOAT[16]", 6, 5)
    passes = (np.arange(200) % 2 == 0) & (np.arange(200) % 7 < 3)
    rowids, distances = warplite.search(db, "t", "e", queries, 8, filter="colour = 'red' AND year % 7 < 3")
    for query, found in zip(queries.astype("f4"), rowids):
        far = ((base.astype("f4").astype("f8") - query) ** 2).sum(1)
        assert found.tolist() == ids[passes][np.argsort(far[passes], kind="stable")[:8]].tolist()
    rowids, _ = warplite.search(db, "t", "e", queries, 8, filter="year < 3")
    assert (rowids[:, 3:] == -1).all() and (rowids[:, :3] >= 10).all()
    with pytest.raises(Exception, match="no such column: yeer"):
        warplite.search(db, "t", "e", queries, 8, filter="yeer < 3")


def test_bits_and_bytes(db):
    db.execute("CREATE VIRTUAL TABLE b USING warp(e BIT[16])")
    warplite.add(db, "b", [1, 2], e=np.array([[0b11, 0], [0, 0x80]], np.uint8))  # packed
    warplite.add(db, "b", [3], e=np.array([[1] * 16]))
    assert db.execute("SELECT vec_to_json(vec_bit(e)) FROM b WHERE rowid = 1").fetchone()[0].startswith("[1,1,0")
    rowids, distances = warplite.search(db, "b", "e", np.ones((1, 16), bool), 3)
    assert rowids.tolist() == [[3, 1, 2]] and distances.tolist() == [[0, 14, 15]]
    db.execute("CREATE VIRTUAL TABLE i USING warp(e INT8[2])")
    warplite.add(db, "i", None, e=np.array([[1, 127]], np.uint8))
    for wrong, why in (
        ([[1, 128]], "from -128 to 127"),
        ([[0.5, 1]], "integers"),
        ([[1]], "2 elements"),
        ([1, 2], "two dim"),
    ):
        with pytest.raises(ValueError, match=why):
            warplite.add(db, "i", None, e=np.array(wrong))


def test_bfloat16_rounds_as_the_extension(db):
    values = np.array([[1 + 2**-8, 1 + 3 * 2**-8, -1e-40, 3.3e38, 1 / 3, 0, -0.0, 65520]])
    db.execute("CREATE VIRTUAL TABLE g USING warp(e BFLOAT16[8])")
    warplite.add(db, "g", [1], e=values)
    warplite.add(db, "g", [2], e=[str(values[0].tolist())])  # JSON text, rounded by the extension
    one, other = db.execute("SELECT e FROM g ORDER BY rowid").fetchall()
    assert one == other


def test_infinity_is_refused_and_nothing_stays(db):
    make(db, "FLOAT16[16]", 2)
    wrong = np.zeros((3, 16))
    wrong[2, 5] = 1e6
    with pytest.raises(Exception, match="t.e"):
        warplite.add(db, "t", [100, 101, 102], e=wrong)
    assert db.execute("SELECT count(*) FROM t").fetchone()[0] == 2
    assert not db.in_transaction


def test_callers_transaction_is_respected(db):
    make(db, "FLOAT[16]", 2)
    db.execute("BEGIN")
    warplite.add(db, "t", [100], e=np.zeros((1, 16)))
    with pytest.raises(Exception, match="(?i)unique"):
        warplite.add(db, "t", [101, 100], e=np.zeros((2, 16)))
    assert db.in_transaction
    assert [row[0] for row in db.execute("SELECT rowid FROM t ORDER BY 1")] == [10, 13, 100]
    db.execute("ROLLBACK")
    assert db.execute("SELECT count(*) FROM t").fetchone()[0] == 2


def test_rows_are_committed(driver, tmp_path):
    db = warplite.connect(tmp_path / "a.db", module=driver)
    make(db, "FLOAT[16]", 4)
    other = warplite.connect(tmp_path / "a.db", module=driver)
    assert other.execute("SELECT count(*) FROM t").fetchone()[0] == 4


def test_nulls_and_lists(db):
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], colour TEXT)")
    warplite.add(db, "t", [1, 2, 3], e=[[1, 2], None, "[3, 4]"], colour=np.array(["a", None, "c"], object))
    rows = db.execute("SELECT rowid, vec_to_json(e), colour FROM t").fetchall()
    assert [(r[0], r[1] is None, r[2]) for r in rows] == [(1, False, "a"), (2, True, None), (3, False, "c")]
    assert warplite.search(db, "t", "e", [1, 2], 5)[0].tolist() == [[1, 3, -1, -1, -1]]
    assert warplite.add(db, "t", [], e=[]) == 0


def test_masked_elements_are_refused(db):
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], year INTEGER)")
    whole = np.ma.masked_array([[1.0, 2], [3, 4]])
    assert warplite.add(db, "t", None, e=whole, year=np.ma.masked_array([1, 2], [False, True])) == 2
    assert [row[0] for row in db.execute("SELECT year FROM t")] == [1, None]
    part = np.ma.masked_array([[1.0, 2], [3, 4]], [[False, False], [False, True]])
    for wrong in (part, part.astype(object), list(part), [part[1], None]):
        with pytest.raises(ValueError, match="masked"):
            warplite.add(db, "t", None, e=wrong)
    with pytest.raises(ValueError, match="masked"):
        warplite.search(db, "t", "e", part[1], 1)
    rows = np.empty(2, object)
    rows[:] = [np.ones(2), np.zeros(2)]
    warplite.add(db, "t", None, e=np.ma.masked_array(rows, [False, True]))  # a vector is missing as a whole
    assert [row[0] for row in db.execute("SELECT e IS NULL FROM t")] == [0, 0, 0, 1]


def test_what_turns_into_an_array(db):
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.eye(3)

        def __iter__(self):
            raise AssertionError("row by row")

    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[3])")
    assert warplite.add(db, "t", None, e=Tensor()) == 3
    assert warplite.search(db, "t", "e", Tensor(), 1)[0].ravel().tolist() == [1, 2, 3]


def test_errors_name_what_is_wrong(db):
    make(db, "FLOAT[16]", 2)
    zeros = np.zeros((1, 16))
    for call, why in (
        (lambda: warplite.search(db, "t", "colour", zeros, 1), "t.colour is no column of vectors"),
        (lambda: warplite.search(db, "gone", "e", zeros, 1), "no such table: gone"),
        (
            lambda: warplite.search(db, "t", "e", np.zeros((1, 15)), 1),
            "t.e takes vectors of 16 elements.*these have 15",
        ),
        (lambda: warplite.search(db, "t", "e", [["a"] * 16], 1), "type"),
        (lambda: warplite.search(db, "t", "e", [[1, 2], [3]], 1), "different lengths"),
        (lambda: warplite.add(db, "t", [1, 2], e=zeros), "different lengths"),
        (lambda: warplite.add(db, "t", None), "none"),
    ):
        with pytest.raises(ValueError, match=why):
            call()


def test_names_that_need_quotes(db):
    db.execute(
        'CREATE VIRTUAL TABLE "a table" USING warp("odd ""name" FLOAT[2], [other one] f16[2], "distance x" TEXT)'
    )
    warplite.add(db, "a table", [5], **{'odd "name': [[1, 2]], "other one": [[3, 4]]})
    assert warplite.search(db, "a table", "other one", [3, 4], 1)[1].tolist() == [[0]]


def test_query_that_is_missing_is_named(db):
    make(db, "FLOAT[16]", 2)
    with pytest.raises(ValueError, match=r"t.e: queries\[1\]: a vector was expected, got none"):
        warplite.search(db, "t", "e", [np.zeros(16), None], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_blobs_and_texts_are_queries(db, kind):
    ids, base = make(db, kind)
    blobs = [bytes(row[0]) for row in db.execute("SELECT e FROM t ORDER BY id LIMIT 3")]
    texts = [row[0] for row in db.execute("SELECT vec_to_json(e) FROM t ORDER BY id LIMIT 3")]
    found = warplite.search(db, "t", "e", blobs, 4)
    assert (found[1][:, 0] == 0).all()
    if "FLOAT" in kind:  # those of 16 bits take float32, too
        wide = [db.execute("SELECT vec_f32(?)", (text,)).fetchone()[0] for text in texts]
        assert np.array_equal(warplite.search(db, "t", "e", wide, 4)[0][:, 0], ids[:3])
    for same in ([bytearray(blob) for blob in blobs], [memoryview(blob) for blob in blobs], np.array(blobs, object)):
        assert np.array_equal(warplite.search(db, "t", "e", same, 4), found)
    assert np.array_equal(warplite.search(db, "t", "e", texts, 4)[0][:, 0], found[0][:, 0])
    assert np.array_equal(warplite.search(db, "t", "e", texts[1], 4)[0][:, 0], found[0][1:2, 0])
    assert np.array_equal(warplite.search(db, "t", "e", blobs[1], 4), (found[0][1:2], found[1][1:2]))
    warplite.add(db, "t", [1, 2, 4], e=[bytearray(blobs[0]), memoryview(blobs[1]), blobs[2]])
    added = db.execute("SELECT e FROM t WHERE id < 5 ORDER BY id").fetchall()
    assert [bytes(row[0]) for row in added] == blobs
    for wrong, why in (
        ([blobs[0][:-1]], r"t.e: queries\[0\]: a BLOB of \d+ bytes was expected, got"),
        ([texts[0], "[1, 2"], r"t.e: queries\[1\]: a JSON array of 16 numbers was expected, got '\[1, 2'"),
        (["[1, 2]"], "t.e takes vectors of 16 elements.*these have 2"),
        ([texts[0], "[1, 2]"], "t.e: vectors of different lengths"),
    ):
        with pytest.raises(ValueError, match=why):
            warplite.search(db, "t", "e", wrong, 1)


def test_numbers_in_arrays_of_objects_and_in_buffers(db):
    make(db, "FLOAT[16]", 20)
    queries = vectors("FLOAT[16]", 3, 5)
    expected = warplite.search(db, "t", "e", queries, 4)
    elsewhere = type("Elsewhere", (), {"__array_interface__": queries.__array_interface__})()
    rows = np.empty(3, object)
    rows[:] = [row.astype(object) for row in queries]
    for same in (queries.astype(object), rows, memoryview(queries), [memoryview(row) for row in queries], elsewhere):
        assert np.array_equal(warplite.search(db, "t", "e", same, 4), expected)


def test_times_are_times_in_whatever_unit(db):
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], s TEXT)")
    for unit in ("D", "s", "us", "ns"):
        times = np.array(["2020-01-31", "NaT"], f"M8[{unit}]")
        for given in (times, times.astype(f">M8[{unit}]"), list(times)):
            try:
                warplite.add(db, "t", None, s=given)
            except TypeError:  # apsw takes no times
                continue
    assert {row[0] for row in db.execute("SELECT s FROM t")} <= {None, "2020-01-31", "2020-01-31 00:00:00"}


def test_what_is_no_column_of_values_is_refused(db):
    make(db, "FLOAT[16]", 4)
    for values in ("red", b"red", 3, None):
        with pytest.raises(ValueError, match="t.colour: a value for each row was expected, got"):
            warplite.add(db, "t", None, e=np.zeros((3, 16)), colour=values)
    for values in ("[1]", b"red", 3, 3.5, np.float32(3), np.array(3), None, object()):
        with pytest.raises(ValueError, match="t.e: an array of vectors was expected, got"):
            warplite.add(db, "t", None, e=values)
    for values in (3, None, np.array(3.5), object()):
        with pytest.raises(ValueError, match="t.e: an array of vectors was expected, got"):
            warplite.search(db, "t", "e", values, 1)
    for ragged in ([[1, 2], [3]], [[1, 2], 3], [[1, 2], [3], None]):
        with pytest.raises(ValueError, match="t.e: vectors of different lengths"):
            warplite.add(db, "t", None, e=ragged)


def test_dots_in_names(db):
    db.execute("ATTACH ':memory:' AS a")
    for name in ('"v1.docs"', 'main."a.b"', 'a."b"', 'temp."b.c.d"'):
        db.execute(f"CREATE VIRTUAL TABLE {name} USING warp(e FLOAT[2])")
    for i, name in enumerate(("v1.docs", "main.a.b", "a.b", "temp.b.c.d", "b.c.d"), 1):
        warplite.add(db, name, [i], e=[[i, 2]])
        assert warplite.search(db, name, "e", [i, 2], 1)[0].tolist() == [[i]], name
    assert db.execute('SELECT count(*) FROM main."a.b"').fetchone()[0] == 1  # a.b is the one of the schema a
    with pytest.raises(ValueError, match="no such table: gone.b"):
        warplite.search(db, "gone.b", "e", [1, 2], 1)


def test_connections_with_traces_and_factories(db):
    if hasattr(db, "text_factory"):
        db.text_factory = bytes
    else:
        db.row_trace = lambda cursor, row: {"row": row}
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], colour TEXT)")
    warplite.add(db, "t", [5], e=[[1, 2]], colour=["red"])
    assert warplite.search(db, "t", "e", [1, 2], 1, filter="colour = 'red'")[0].tolist() == [[5]]
    [row] = db.execute("SELECT colour FROM t")
    assert row in ((b"red",), {"row": ("red",)})  # what was set stays


@pytest.mark.parametrize("kind", KINDS)
def test_no_queries(db, kind):
    make(db, kind, 2)
    for none in ([], np.array([]), np.zeros((0, 16), "i1")):
        rowids, distances = warplite.search(db, "t", "e", none, 4)
        assert rowids.shape == distances.shape == (0, 4)


def test_arrow(db):
    pa = pytest.importorskip("pyarrow")
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], colour TEXT)")
    whole = pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2))
    gaps = pa.array([[5, 6], None], pa.list_(pa.float32(), 2))
    warplite.add(db, "t", pa.array([1, 2]), e=whole, colour=pa.array(["a", None]))
    warplite.add(db, "t", pa.array([3, 4]), e=pa.chunked_array([gaps]))
    queries = pa.chunked_array([whole, gaps[:1]])
    hits = warplite.search(db, "t", "e", queries, 4)
    assert hits[0][:, 0].tolist() == [1, 2, 3]
    table = warplite.to_arrow(*hits)
    assert table.column_names == ["query", "rank", "rowid", "distance"] and len(table) == 9
    assert table.slice(0, 1).to_pylist() == [{"query": 0, "rank": 1, "rowid": 1, "distance": 0.0}]
    assert warplite.search(db, "t", "e", whole[1:], 1)[0].tolist() == [[2]]  # a slice has an offset


def test_pandas(db):
    pd = pytest.importorskip("pandas")
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], colour TEXT, year INTEGER)")
    frame = pd.DataFrame(
        {
            "e": [np.array([1, 2]), np.array([3.5, 4]), None],
            "colour": ["a", None, "c"],
            "year": pd.array([2020, None, 2022], "Int64"),
        },
        index=[7, 8, 9],
    )
    warplite.add(db, "t", frame.index, **frame)
    assert [tuple(r) for r in db.execute("SELECT rowid, colour, year FROM t")] == [
        (7, "a", 2020),
        (8, None, None),
        (9, "c", 2022),
    ]
    hits = warplite.search(db, "t", "e", frame.e[:2], 2)
    result = warplite.to_pandas(*hits)
    assert result.rowid.tolist() == [7, 8, 8, 7]
    assert list(result.columns) == ["query", "rank", "rowid", "distance"]


def test_times_of_pandas_are_pythons_own(tmp_path):
    pd = pytest.importorskip("pandas")
    db = warplite.connect(tmp_path / "a.db", module="sqlite3")  # which takes times
    db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], s TEXT)")
    times = pd.Series(pd.to_datetime(["2020-01-31 12:00", None]))
    for given in (times, times.dt.tz_localize("UTC"), pd.DatetimeIndex(times), list(times)):
        warplite.add(db, "t", None, s=given)
    texts = [row[0] for row in db.execute("SELECT s FROM t")]
    assert texts == ["2020-01-31 12:00:00", None, "2020-01-31 12:00:00+00:00", None] + 2 * texts[:2]


@pytest.mark.parametrize("index", ["", "index=ivfflat(lists=4)", "index=list_of_clusters(size=16)"])
def test_several_tables_as_one(db, index):
    """Tables in files beside each other, with rows deleted and rows not written yet, against one with all rows."""
    random = np.random.default_rng(4)
    base = random.integers(-2, 3, (3000, 8)).astype("f4")  # many are equally far
    years = np.arange(3000) % 11
    names = ["main.t", "b.t", "c.t", "d.t"]
    for schema in "bcd":
        db.execute(f"ATTACH ':memory:' AS {schema}")
    for name in ["one", *names]:
        db.execute(f"CREATE VIRTUAL TABLE {name} USING warp(id INTEGER PRIMARY KEY, e FLOAT[8] {index}, year INTEGER)")
    queries = random.standard_normal((40, 8)).astype("f4")

    def compare(k, **options):
        expected = warplite.search(db, "one", "e", queries, k, exact=True, **options)
        for _ in range(2):  # what the first search made of the tables serves the second
            found = warplite.search(db, names[0], "e", queries, k, exact=True, also=names[1:], **options)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])

    for part, name in enumerate(names):
        some = np.arange(part, 3000, 4)
        for table in ("one", name):
            warplite.add(db, table, some, e=base[some], year=years[some])
    if db.in_transaction:  # not with apsw, which begins none by itself
        db.execute("COMMIT")
    compare(10)
    compare(4000)
    compare(7, filter="year > 5")
    compare(7, filter="year = 99")
    for table in ("one", "c.t"):
        db.execute(f"DELETE FROM {table} WHERE id % 4 = 2 AND id < 1000")
    compare(10)
    if not db.in_transaction:
        db.execute("BEGIN")
    for table in ("one", "b.t"):  # not committed
        db.execute(f"INSERT INTO {table}(id, e, year) VALUES (9001, ?, 3)", (queries[0].tobytes(),))
    compare(10)
    compare(7, filter="year = 3")
    db.execute("ROLLBACK")
    compare(10)
    found, _ = warplite.search(db, "main.t", "e", queries, 10, also=names[1:], recall=0.9)
    true, _ = warplite.search(db, "one", "e", queries, 10, exact=True)
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, true)]) > 0.8
