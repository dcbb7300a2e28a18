"""Every answer of a cluster is, row for row, that of one file with all of its rows."""

import json

import numpy as np
import pytest
import ray

import warplite
import warplite.cluster

from .conftest import ROWS, SCHEMA, make_rows, table_of


@pytest.fixture(scope="module")
def cluster(rows, tmp_path_factory):
    made = warplite.cluster.create(tmp_path_factory.mktemp("c") / "papers", SCHEMA, source=rows, shards=5)
    with made:
        yield made


def same_neighbors(found, db, queries, k, **options):
    ids, distances = warplite.search(db, "papers", "e", queries, k, **options)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.distances, distances)


@pytest.mark.parametrize("k", [1, 10, 3 * ROWS])
@pytest.mark.parametrize("where", [None, "year > 2020", "year > 2020 AND venue = 'VLDB'", "id % 97 = 3", "year > 9999"])
def test_the_nearest_rows(cluster, one_file, rows, k, where):
    queries = rows["e"][: 3 if k > 10 else 50] + 0.25
    options = {} if where is None else {"filter": where}
    found = cluster.search("e", queries, k, filter=where)
    same_neighbors(found, one_file, queries, k, **options)
    assert found.coverage == 1.0 and found.generation == cluster.manifest.generation


def test_one_query_none_and_many_batches(cluster, one_file, rows, monkeypatch):
    same_neighbors(cluster.search("e", rows["e"][7], 5), one_file, rows["e"][7], 5)
    assert cluster.search("e", rows["e"][:0], 5).ids.shape == (0, 5)
    monkeypatch.setattr("warplite.cluster._searching._ANSWER_BYTES", 1000)
    same_neighbors(cluster.search("e", rows["e"][:99], 5), one_file, rows["e"][:99], 5)


def test_numbers_of_numpy_are_options(cluster, one_file, rows):
    found = cluster.search("e", rows["e"][:5], np.int64(3), recall=np.float32(0.5), exact=np.bool_(True))
    same_neighbors(found, one_file, rows["e"][:5], 3)


def test_everything_within_a_radius(cluster, one_file, rows):
    queries = rows["e"][:20]
    found = cluster.range("e", queries, 7.5, filter="year > 2000")
    one_file.execute("CREATE TEMP TABLE IF NOT EXISTS q(id INTEGER PRIMARY KEY, v)")
    one_file.execute("DELETE FROM q")
    one_file.executemany("INSERT INTO q VALUES (?, ?)", [(i, v.tobytes()) for i, v in enumerate(queries)])
    expected = one_file.execute(
        "SELECT query_id, rowid, distance FROM warp_range_join('papers', 'e', 'SELECT id, v FROM q', 7.5, ?) "
        "ORDER BY query_id, distance, rowid",
        (json.dumps({"filter": "year > 2000"}),),
    ).fetchall()
    assert list(zip(found.queries.tolist(), found.ids.tolist(), found.distances.tolist())) == expected
    assert len(expected) > 20
    assert len(cluster.range("e", queries, 7.5, filter="year > 2000", most=len(expected)).ids) == len(expected)
    for most in (0, len(expected) - 1):
        with pytest.raises(ValueError, match=rf"more than {most} pairs .* radius of 7\.5; ask with a smaller radius"):
            cluster.range("e", queries, 7.5, filter="year > 2000", most=most)


def test_match_counts(cluster, one_file):
    queries = [
        {"year": [2000, 2010], "venue": "VLDB"},
        {"venue": ["ICDE", "SIGMOD"]},
        {"venue": "VLDB", "year": [1990, 1991]},
    ]
    found = cluster.match_count(queries, 30, filter="year >= 2005")
    for query, ids, matches in zip(queries, found.ids, found.matches):
        expected = one_file.execute(
            "SELECT rowid, matches FROM papers WHERE papers MATCH ? AND k = 30 AND year >= 2005",
            (json.dumps(query),),
        ).fetchall()
        rest = [(-1, 0)] * (30 - len(expected))
        assert list(zip(ids.tolist(), matches.tolist())) == expected + rest


def test_sequences(cluster, one_file, rows):
    found = cluster.sequence("name", rows["name"][:10], 20)
    for text, ids, distances, certified in zip(rows["name"], found.ids, found.distances, found.certified):
        expected = one_file.execute(
            "SELECT rowid, distance, certified FROM warp_sequence_search('papers', 'name', ?, 20)", (text,)
        ).fetchall()
        assert list(zip(ids.tolist(), distances.tolist())) == [(i, d) for i, d, _ in expected]
        assert certified and all(c for _, _, c in expected)


def test_documents(cluster, one_file):
    found = cluster.documents("words", ["w1 w2 w3", "w8"], 25)
    for text, ids, matches in zip(["w1 w2 w3", "w8"], found.ids, found.matches):
        expected = one_file.execute(
            "SELECT rowid, matches FROM warp_document_search('papers', 'words', ?, 25)", (text,)
        ).fetchall()
        assert list(zip(ids.tolist(), matches.tolist())) == expected


@pytest.mark.parametrize(
    "options", [{}, {"fusion": "linear"}, {"weights": [1, 0.5, 3]}, {"depth": 7, "filter": "year > 2010"}]
)
def test_hybrid_search(cluster, one_file, rows, options):
    sources = [("e", rows["e"][5]), ("words", "w1 w2 w8"), ("name", rows["name"][9])]
    found = cluster.hybrid(sources, 40, **options)
    parameters = [value for name, query in sources for value in (name, getattr(query, "tobytes", lambda q=query: q)())]
    expected = one_file.execute(
        "SELECT rowid, score, ranks FROM warp_hybrid_search('papers', 40, ?, ?, ?, ?, ?, ?, ?)",
        (*parameters, json.dumps(options)),
    ).fetchall()
    ranks = [[rank or 0 for rank in json.loads(text)] for _, _, text in expected]
    assert list(zip(found.ids.tolist(), found.scores.tolist())) == [(i, s) for i, s, _ in expected]
    assert found.ranks.tolist() == ranks and len(expected) > 15
    assert cluster.hybrid([("e", None)], 5).ids.tolist() == []
    with pytest.raises(ValueError, match="no index=words or ngram"):
        cluster.hybrid([("venue", "VLDB")], 5)


def test_blobs_are_queries(cluster, rows):
    queries = rows["e"][:2]
    blobs = [np.asarray(query, "<f4").tobytes() for query in queries]
    assert np.array_equal(cluster.search("e", blobs, 3).ids, cluster.search("e", queries, 3).ids)


def test_what_is_asked_wrongly_says_so(cluster, rows):
    queries = rows["e"][:2]
    with pytest.raises(ValueError, match=r"papers\.year is no column of vectors"):
        cluster.search("year", queries, 3)
    with pytest.raises(ValueError, match="takes vectors of 16 elements"):
        cluster.search("e", queries[:, :5], 3)
    for wrong in ({"filter": "no_such_column > 1"}, {"filter": "1) OR (1"}, {"nonsense": 1}):
        with pytest.raises(Exception, match="no_such_column|expected"):
            cluster.search("e", queries, 3, **wrong)
    for filter in ("no_such_column > 1", "year > ?", "", 5):
        with pytest.raises(ValueError, match="^filter: "):
            cluster.match_count({"year": 2000}, 3, filter=filter)
    for wrong in (queries, [None], [b"ab"], b"ab", [5], ["abc", np.nan]):
        for ask in (
            lambda texts: cluster.range("name", texts, 1),
            lambda texts: cluster.documents("words", texts, 1),
            lambda texts: cluster.sequence("name", texts, 1),
            lambda texts: cluster.hybrid([("words", texts)], 1),
        ):
            with pytest.raises(ValueError, match=r"papers\.(name|words): expected texts, got "):
                ask(wrong)
    assert cluster.documents("words", np.array(["w1 w2"]), 1).matches.tolist() == [[2]]
    with pytest.raises(ValueError, match="was not cut by this column"):
        cluster.search("e", queries, 3, probe=1)
    with pytest.raises(ValueError, match="k: expected an integer, 0 or more, got 2.5"):
        cluster.search("e", queries, 2.5)


@pytest.mark.parametrize(
    "filter",
    [
        "id < (SELECT avg(id) FROM papers)",
        "id IN (/* SELECT */ select id FROM papers)",
        "EXISTS (WITH t AS (VALUES (1)) SELECT 1 FROM t)",
        "id IN (VALUES (1), (2))",
        "venue IN pragma_function_list OR 1",
        "1) AND id IN (SELECT 1",
    ],
)
def test_filters_with_a_sub_query_are_refused(cluster, rows, filter):
    """Each shard would take the rows of its own for those of the cluster."""
    asked = {
        cluster.search: ("e", rows["e"][:2], 3),
        cluster.range: ("e", rows["e"][:2], 1.0),
        cluster.match_count: ({"year": 2000}, 3),
        cluster.documents: ("words", ["w1"], 3),
        cluster.sequence: ("name", ["abc"], 3),
        cluster.hybrid: ([("words", "w1")], 3),
    }
    for ask, arguments in asked.items():
        with pytest.raises(ValueError, match="would see the rows of one shard"):
            ask(*arguments, filter=filter)


@pytest.mark.parametrize(
    "filter", ["venue <> 'SELECT id FROM papers'", "venue LIKE 'V%' -- (SELECT 1)", "papers.year IN (2001, 2002)"]
)
def test_what_only_looks_like_a_sub_query(cluster, one_file, rows, filter):
    same_neighbors(cluster.search("e", rows["e"][:5], 9, filter=filter), one_file, rows["e"][:5], 9, filter=filter)


@pytest.mark.parametrize("kind", ["parquet", "npy", "fbin", "dataset"])
def test_sources(kind, rows, parquet, one_file, tmp_path):
    schema, vectors = SCHEMA, np.ascontiguousarray(rows["e"])
    if kind == "parquet":
        source = [parquet]
    elif kind == "dataset":
        ray.data.DataContext.get_current().enable_progress_bars = False
        source = ray.data.read_parquet(parquet)
    else:
        schema = "CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, e FLOAT[16])"
        source = str(tmp_path / f"vectors.{kind}")
        if kind == "npy":
            np.save(source, vectors)
        else:
            with open(source, "wb") as file:
                np.array(vectors.shape, "<i4").tofile(file)
                vectors.tofile(file)
    with warplite.cluster.create(tmp_path / "c", schema, source=source, shards=3) as made:
        assert [shard.rows for shard in made.manifest.shards] == [1333, 1333, 1334]
        same_neighbors(made.search("e", vectors[:20], 10), one_file, vectors[:20], 10)
        if kind in ("parquet", "dataset"):
            same_neighbors(made.search("e", vectors[:9], 9, filter="year < 2000"), one_file, vectors[:9], 9,
                           filter="year < 2000")  # fmt: skip
    # A shard is a file that any tool opens.
    db = warplite.connect(tmp_path / "c" / made.manifest.shards[1].file)
    db.execute("INSERT INTO papers(papers) VALUES ('integrity-check')")
    assert db.execute("SELECT count(*), min(id), max(id) FROM papers").fetchone() == (1333, 1333, 2665)


def test_one_model_for_all(tmp_path):
    schema = "CREATE VIRTUAL TABLE papers USING warp(e FLOAT[16] index=ivfpq(lists=16, m=4), year INTEGER)"
    rows = {name: make_rows(6000, 5)[name] for name in ("e", "year")}
    with warplite.cluster.create(tmp_path / "c", schema, source=rows, shards=3, sample=3000) as made:
        assert set(made.manifest.models) == {"e"}
        made.add({name: values[:100] for name, values in rows.items()}, shards=1)
        models = set()
        for shard in made.manifest.shards:
            db = warplite.connect(tmp_path / "c" / shard.file)
            model = db.execute("SELECT warp_model('papers', 'e')").fetchone()[0]
            measured = int.from_bytes(model[48:56], "little")  # its recall is each shard's own
            models.add(model[64 : len(model) - measured])
            db.execute("INSERT INTO papers(papers) VALUES ('integrity-check')")
        assert len(models) == 1
        everything = {name: np.concatenate([values, values[:100]]) for name, values in rows.items()}
        one = table_of(everything, np.arange(6100), schema)
        same_neighbors(made.search("e", rows["e"][:9], 5, exact=True), one, rows["e"][:9], 5, exact=True)
        true, _ = warplite.search(one, "papers", "e", rows["e"][:200] + 0.25, 10, exact=True)
        found = made.search("e", rows["e"][:200] + 0.25, 10, recall=0.9)
        share = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(true, found.ids)])
        assert share >= 0.89


@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_routing(distance, tmp_path, monkeypatch):
    random = np.random.default_rng(3)
    centres = random.standard_normal((40, 8)) * 10
    vectors = (centres[random.integers(0, 40, 5000)] + random.standard_normal((5000, 8))).astype("f4")
    schema = f"CREATE VIRTUAL TABLE papers USING warp(e FLOAT[8] distance={distance})"
    with warplite.cluster.create(tmp_path / "c", schema, source={"e": vectors}, shards=6, cut_by="e") as made:
        made.add({"e": vectors[:50]})
        one = table_of({"e": np.concatenate([vectors, vectors[:50]])}, np.arange(5050), schema)
        same_neighbors(made.search("e", vectors[:30], 10), one, vectors[:30], 10)
        same_neighbors(made.search("e", vectors[:30], 10, probe=6), one, vectors[:30], 10)
        true, _ = warplite.search(one, "papers", "e", vectors[:300], 10)
        shares, sizes = [], sorted(shard.rows for shard in made.manifest.shards)
        for probe in (1, 2):
            found = made.search("e", vectors[:300], 10, probe=probe)
            shares.append(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(true, found.ids)]))
            assert sum(sizes[:probe]) / 5050 <= found.coverage <= sum(sizes[-probe:]) / 5050
            with monkeypatch.context() as patch:
                patch.setattr("warplite.cluster._searching._ANSWER_BYTES", 5000)  # several batches
                np.testing.assert_array_equal(made.search("e", vectors[:300], 10, probe=probe).ids, found.ids)
        assert 0.8 < shares[0] <= shares[1] <= 1
        assert made.search("e", vectors[:0], 10, probe=1).ids.shape == (0, 10)
        assert made.search("e", [vectors[0].tolist()], 10, probe=7).coverage == 1
        for wrong in (0, -1, 1.5, "2"):
            with pytest.raises(ValueError, match="probe: expected an integer, 1 or more, got"):
                made.search("e", vectors[:3], 10, probe=wrong)


class Matrix:
    """What SciPy's sparse matrices are asked for; SciPy itself is not needed."""

    has_canonical_format = True

    def __init__(self, rows, dim):
        self.shape = (len(rows), dim)
        self.indptr = np.cumsum([0, *(len(row) for row in rows)])
        self.indices = np.array([index for row in rows for index in sorted(row)])
        self.data = np.array([row[index] for row in rows for index in sorted(row)], "f4")

    def tocsr(self):
        return self


def test_sparse_vectors(tmp_path, monkeypatch):
    """Searches, ranges and rankings by a SPARSE column, with ties, empty vectors and rows without one."""
    random = np.random.default_rng(8)
    schema = "CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, e FLOAT[4], s SPARSE[60], year INTEGER)"

    def drawn(count, entries):
        some = [random.choice(60, random.integers(0, entries), replace=False) for _ in range(count)]
        return [{int(index): float(random.integers(1, 5)) / 2 for index in sorted(indexes)} for indexes in some]

    texts = [None if n % 50 == 7 else json.dumps(row) for n, row in enumerate(drawn(3000, 9))]
    rows = {"e": random.integers(-2, 3, (3000, 4)).astype("f4"), "s": texts, "year": np.arange(3000) % 13}
    queries = Matrix(drawn(30, 20), 60)
    one = table_of(rows, np.arange(3000), schema)
    with warplite.cluster.create(tmp_path / "c", schema, source=rows, shards=4) as made:
        for where in (None, "year > 4", "year > 99"):
            options = {} if where is None else {"filter": where}
            ids, distances = warplite.search(one, "papers", "s", queries, 15, **options)
            found = made.search("s", queries, 15, filter=where)
            np.testing.assert_array_equal(found.ids, ids)
            np.testing.assert_array_equal(found.distances, distances)
        monkeypatch.setattr("warplite.cluster._searching._ANSWER_BYTES", 2000)  # several batches
        ids, _ = warplite.search(one, "papers", "s", queries, 15)
        np.testing.assert_array_equal(made.search("s", queries, 15).ids, ids)

        query = Matrix([{3: 1.0, 17: 2.0, 40: 0.5}], 60)
        near = made.range("s", query, -2.0)
        expected = one.execute(
            'SELECT rowid, distance FROM papers WHERE s MATCH \'{"3":1,"17":2,"40":0.5}\' AND distance <= -2 '
            "ORDER BY distance, rowid"
        ).fetchall()
        assert list(zip(near.ids.tolist(), near.distances.tolist())) == expected and len(expected) > 20
        ranking = made.hybrid([("s", query), ("e", rows["e"][3])], 25)
        expected = one.execute(
            "SELECT rowid, score FROM warp_hybrid_search('papers', 25, 's', '{\"3\":1,\"17\":2,\"40\":0.5}', 'e', ?)",
            (rows["e"][3].tobytes(),),
        ).fetchall()
        assert list(zip(ranking.ids.tolist(), ranking.scores.tolist())) == expected
        with pytest.raises(ValueError, match=r"papers\.s takes a SciPy sparse matrix"):
            made.search("s", rows["e"][:2], 3)
