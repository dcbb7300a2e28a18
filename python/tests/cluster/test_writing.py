"""Rows that come and go: a reader sees all of a commit or nothing, whoever dies on the way."""

import json
import os
import threading
import time

import numpy as np
import pytest

import warplite
import warplite.cluster
from warplite.cluster import ClusterError, _cluster, _manifest, _writing

from .conftest import ROWS, SCHEMA, make_rows, table_of
from .test_answers import same_neighbors


def cut(rows, start, stop):
    return {name: values[start:stop] for name, values in rows.items()}


@pytest.fixture
def cluster(rows, tmp_path):
    with warplite.cluster.create(tmp_path / "c", SCHEMA, source=cut(rows, 0, 3000), shards=3) as made:
        yield made


def test_rows_are_added_deleted_and_compacted(cluster, rows, tmp_path, monkeypatch):
    assert cluster.manifest.generation == 1
    cluster.add(cut(rows, 3000, 3500))  # into the smallest shard
    assert [s.rows for s in cluster.manifest.shards] == [1500, 1000, 1000]
    cluster.add_shards(1)
    cluster.add(cut(rows, 3500, 3600))
    assert [s.rows for s in cluster.manifest.shards] == [1500, 1000, 1000, 100]
    monkeypatch.setattr(_cluster, "SMALL_ROWS", 100)
    cluster.add(cut(rows, 3600, 3700))  # none is small any more
    cluster.add(cut(rows, 3700, ROWS), shards=2)
    assert [s.rows for s in cluster.manifest.shards] == [1500, 1000, 1000, 100, 100, 150, 150]
    one = table_of(rows, np.arange(ROWS))
    same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)

    gone = [*range(0, ROWS, 7), ROWS + 5, -1]
    assert cluster.delete(gone) == len(range(0, ROWS, 7))
    assert cluster.delete(gone) == 0
    one.execute("DELETE FROM papers WHERE id % 7 = 0")
    same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)

    before = cluster.manifest
    cluster.compact()
    assert len(cluster.manifest.shards) == 3 and cluster.manifest.rows == before.rows
    assert all(shard.deleted == 0 for shard in cluster.manifest.shards)
    same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
    assert cluster.match_count({"year": 2001}, 500).ids.tolist()[0] == [
        i for (i,) in one.execute("SELECT rowid FROM warp_match_count('papers', '{\"year\": 2001}', 500)")
    ] + [-1] * (500 - int(one.execute("SELECT count(*) FROM papers WHERE year = 2001").fetchone()[0]))
    assert cluster.add(cut(rows, 0, 10)) == 10
    assert cluster.manifest.next_id == ROWS + 10


def test_ids_of_ones_own(rows, tmp_path):
    ids = np.random.default_rng(1).permutation(5 * ROWS)[:ROWS]
    with warplite.cluster.create(tmp_path / "c", SCHEMA, source={**rows, "key": ids}, shards=3, ids="key") as cluster:
        one = table_of(rows, ids)
        same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
        generation = cluster.manifest.generation
        with pytest.raises(ClusterError, match=f"the id {ids[17]} is there already"):
            cluster.add({**cut(rows, 0, 2), "key": [5 * ROWS + 1, ids[17]]}, ids="key")
        with pytest.raises(ClusterError, match="the id 99999 comes twice"):
            cluster.add({**cut(rows, 0, 2), "key": [99999, 99999]}, ids="key")
        assert cluster.manifest.generation == generation
    twice = ids.copy()
    twice[-1] = twice[0]
    with pytest.raises(ClusterError, match="comes twice"):
        warplite.cluster.create(tmp_path / "d", SCHEMA, source={**rows, "key": twice}, shards=3, ids="key")
    with pytest.raises(ClusterError, match="holds no cluster"):
        warplite.cluster.open(tmp_path / "d")


def test_what_is_no_cluster(cluster, rows, tmp_path):
    path = cluster.manifest and tmp_path / "c"
    with pytest.raises(ClusterError, match="holds a cluster already"):
        warplite.cluster.create(path, SCHEMA, source=rows, shards=1)
    for schema, message in {
        "CREATE TABLE t(a)": "one statement",
        "CREATE VIRTUAL TABLE t USING warp(name TEXT PRIMARY KEY, e FLOAT[2])": "integer ids",
        "CREATE VIRTUAL TABLE t USING warp(e FLOAT[2], content=u)": "content|no such table",
    }.items():
        with pytest.raises(Exception, match=message):
            warplite.cluster.create(tmp_path / "x", schema, source={"e": rows["e"]}, shards=1)
    with pytest.raises(ClusterError, match="no such file"):
        warplite.cluster.create(tmp_path / "x", SCHEMA, source="nowhere.npy", shards=1)
    with pytest.raises(Exception, match="no column named nonsense"):
        cluster.add({**cut(rows, 0, 9), "nonsense": range(9)})
    assert cluster.manifest.generation == 1
    with _manifest.writing(str(path)), pytest.raises(ClusterError, match="another process is writing"):
        cluster.add(cut(rows, 0, 9))
    (path / "manifest.json").write_text('{"format": 1, "shards": 3}')
    with pytest.raises(ClusterError, match="damaged"):
        warplite.cluster.open(path)


def test_a_writer_that_dies_leaves_nothing_to_see(cluster, rows, tmp_path, monkeypatch):
    """Before the manifest is renamed nothing of the commit counts, and the next writer removes what is left."""
    one = table_of(cut(rows, 0, 3000), np.arange(3000))

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_manifest, "write", die)
        with pytest.raises(KeyboardInterrupt):
            cluster.add(cut(rows, 3000, 3500))
    (tmp_path / "c" / "shards" / "0001-2.db.abc.part").write_bytes(b"half")
    assert cluster.manifest.generation == 1
    same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
    cluster.add(cut(rows, 3000, 3500))
    names = {shard.file for shard in cluster.manifest.shards} | cluster.manifest.retired.keys()
    assert {f"shards/{name}" for name in os.listdir(tmp_path / "c" / "shards")} == names


def test_files_of_old_generations_go_in_time(cluster, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(_manifest, "KEEP_SECONDS", 0)
    monkeypatch.setattr(_manifest.sweep, "__defaults__", (0,))
    cluster.search("e", rows["e"][:1], 1)
    for start in range(3000, 3300, 100):
        cluster.add(cut(rows, start, start + 100))
    cluster.delete([1])
    one = table_of(cut(rows, 0, 3300), np.arange(3300))
    one.execute("DELETE FROM papers WHERE id = 1")
    same_neighbors(cluster.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
    assert len(os.listdir(tmp_path / "c" / "shards")) == 3 and cluster.manifest.retired == {}


def test_a_task_that_dies_runs_again(rows, tmp_path, monkeypatch):
    """The first run of each order dies when it has its rows: none is lost, and none is there twice."""
    write = _writing.write

    def write_or_die(folder, replicas, order, marks=str(tmp_path)):
        mark = os.path.join(marks, f"died-{order.number}")
        if not os.path.exists(mark):
            open(mark, "w").close()
            _writing._build(folder, os.path.join(folder, f"{order.file}.dying.part"), order)
            os._exit(1)
        return write(folder, replicas, order)

    monkeypatch.setattr(_writing, "write", write_or_die)
    with warplite.cluster.create(tmp_path / "c", SCHEMA, source=rows, shards=2) as made:
        one = table_of(rows, np.arange(ROWS))
        same_neighbors(made.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
        assert [shard.rows for shard in made.manifest.shards] == [ROWS // 2] * 2
    assert sorted(os.listdir(tmp_path)) == ["c", "died-0", "died-1"]


def test_readers_see_whole_generations(cluster, rows):
    """While rows come and go in pairs in different shards, every answer has both of a pair or neither."""
    errors, generations, stop = [], set(), threading.Event()

    def read():
        while not stop.is_set():
            try:
                found = cluster.match_count({"venue": "PAIR"}, 100)
            except Exception as error:
                errors.append(error)
                return
            ids = [i for i in found.ids[0].tolist() if i >= 0]
            generations.add(found.generation)
            if sorted(i % 1000 for i in ids) != sorted([*{i % 1000 for i in ids}] * 2):
                errors.append(ids)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    pair = {**{name: [values[0]] * 2 for name, values in rows.items()}, "venue": ["PAIR"] * 2}
    pair["e"] = np.stack([rows["e"][0]] * 2)
    for turn in range(4):
        ids = [10_000 + turn, 20_000 + turn]
        cluster.add({**pair, "key": ids}, ids="key", shards=2)
        if turn % 2:
            cluster.delete(ids)
        end = time.monotonic() + 60
        while not errors and cluster.manifest.generation not in generations and time.monotonic() < end:
            time.sleep(0.05)
    stop.set()
    for reader in readers:
        reader.join()
    assert not errors, errors[0]
    assert len(generations) >= 4


def test_rows_of_a_new_generation_are_in_every_answer(cluster, rows):
    """Who has committed reads it at once, also through another handle."""
    with warplite.cluster.open(cluster._folder, actors=1) as other:
        for turn in range(3):
            cluster.add(cut(make_rows(50, 9 + turn), 0, 50))
            assert other.match_count({"year": [0, 9999]}, 5000).ids[0].max() == cluster.manifest.next_id - 1
    assert cluster.manifest.next_id == 3150


def test_clusters_with_one_folder_for_copies(rows, tmp_path):
    """Each has its place there, also where the folder is that of a third cluster; and files of others stay."""
    shared, some = tmp_path / "c0", {}
    for number in range(3):
        some[number] = cut(rows, 1000 * number, 1000 * number + 1000)
        replicas = [] if number == 0 else [shared]
        warplite.cluster.create(tmp_path / f"c{number}", SCHEMA, source=some[number], shards=2, replicas=replicas)
    (shared / "shards" / "mine.txt").write_text("kept")
    for number in range(3):
        with warplite.cluster.open(tmp_path / f"c{number}") as made:
            some[number] = {name: [*some[number][name], values[7]] for name, values in rows.items()}
            made.add(cut(rows, 7, 8))
            for shard in made.manifest.shards if number else ():
                os.unlink(tmp_path / f"c{number}" / shard.file)  # what is left is the copy
            one = table_of({**some[number], "e": np.array(some[number]["e"])}, np.arange(1001))
            same_neighbors(made.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)
    assert (shared / "shards" / "mine.txt").read_text() == "kept"


def test_a_create_that_fails_leaves_no_copies(rows, tmp_path):
    with pytest.raises(ClusterError, match="comes twice"):
        source = {**cut(rows, 0, 9), "key": [1, 2, 3, 4, 5, 6, 7, 8, 1]}
        warplite.cluster.create(tmp_path / "c", SCHEMA, source=source, shards=3, ids="key", replicas=[tmp_path / "r"])
    assert os.listdir(tmp_path / "r") == []


def test_a_cluster_of_before(rows, tmp_path):
    """Its copies are right in the folder for them, and stay there."""
    made = warplite.cluster.create(
        tmp_path / "c", SCHEMA, source=cut(rows, 0, 1000), shards=2, replicas=[tmp_path / "r"]
    )
    os.rename(tmp_path / "r" / made.manifest.uuid / "shards", tmp_path / "r" / "shards")
    fields = json.loads((tmp_path / "c" / "manifest.json").read_text())
    del fields["uuid"]
    (tmp_path / "c" / "manifest.json").write_text(json.dumps(fields))
    with warplite.cluster.open(tmp_path / "c") as old:
        old.add(cut(rows, 1000, 1100))
        for shard in old.manifest.shards:
            os.unlink(tmp_path / "c" / shard.file)
        one = table_of(cut(rows, 0, 1100), np.arange(1100))
        same_neighbors(old.search("e", rows["e"][:20], 12), one, rows["e"][:20], 12)


@pytest.mark.parametrize(
    "ids", [[1.5, 2], np.array([3, 2**63], "u8"), [None, 1], [float(2**53), 1], ["x", "1"], [2**70, 1], [True, False]]
)
def test_what_is_no_id(cluster, rows, tmp_path, ids):
    expected = "key: expected integers of 64 bits, got "
    with pytest.raises(ValueError, match=expected):
        cluster.add({**cut(rows, 0, 2), "key": ids}, ids="key")
    with pytest.raises(ValueError, match=expected):
        warplite.cluster.create(tmp_path / "d", SCHEMA, source={**cut(rows, 0, 2), "key": ids}, ids="key", shards=1)
    with pytest.raises(ValueError, match="ids: expected integers of 64 bits, got "):
        cluster.delete(ids)
    assert cluster.manifest.generation == 1


def test_ids_as_sources_have_them(cluster, rows):
    for number, key in enumerate((["9000", "-9001"], [9002.0, 9003.0], np.array([9004, 9005], "u2"))):
        assert cluster.add({**cut(rows, 0, 2), "key": key}, ids="key") == 2
        assert cluster.delete(key) == 2, number
    assert cluster.delete([]) == 0
    with pytest.raises(ClusterError, match="ids: the source has no column 'key'; it has e, year, venue, name, words"):
        cluster.add(cut(rows, 0, 2), ids="key")


def test_numbers_of_shards(cluster, rows, tmp_path):
    with pytest.raises(ValueError, match="shards: expected an integer, 1 or more, got 0"):
        warplite.cluster.create(tmp_path / "d", SCHEMA, source=rows, shards=0)
    with pytest.raises(ValueError, match="shards: expected an integer, 0 or more, got -1"):
        cluster.add(cut(rows, 0, 2), shards=-1)
    with pytest.raises(ValueError, match="count: expected an integer, 1 or more, got 0"):
        cluster.add_shards(0)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "lists", "blobs", "float16", "bfloat16", "int8"])
def test_cut_by_vectors_of_every_kind(kind, tmp_path):
    """Also where some rows have none."""
    random = np.random.default_rng(4)
    vectors = random.integers(-9, 9, (3, 8))[random.integers(0, 3, 600)] + random.integers(-1, 2, (600, 8))
    given = [None if i % 5 == 3 else vector.tolist() for i, vector in enumerate(vectors)]
    stored = kind if kind in ("float16", "bfloat16", "int8") else "float"
    schema = f"CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, E {stored}[8], y INTEGER)"
    source = str(tmp_path / f"rows.{kind}")
    if kind == "csv":
        text = "e,y\n" + "".join(f'"{value or ""}",{i}\n' for i, value in enumerate(given))
        (tmp_path / "rows.csv").write_text(text)
    elif kind == "jsonl":
        lines = [json.dumps({"e": value, "y": i}) + "\n" for i, value in enumerate(given)]
        (tmp_path / "rows.jsonl").write_text("".join(lines))
    else:
        cells = [value and np.array(value, "f4").tobytes() for value in given] if kind == "blobs" else given
        source = {"e": cells, "y": np.arange(600)}
    with warplite.cluster.create(tmp_path / "c", schema, source=source, shards=3, cut_by="e") as made:
        there = [i for i, value in enumerate(given) if value is not None]
        found = made.search("e", vectors[there], 1, probe=1)
        np.testing.assert_array_equal(found.distances, 0)
        assert min(shard.rows for shard in made.manifest.shards) > 30  # those without a vector go to all
        assert made.manifest.rows == 600 and made.match_count({"y": 3}, 1).ids.tolist() == [[3]]


def test_what_no_cluster_is_cut_by(rows, tmp_path):
    schema = "CREATE VIRTUAL TABLE papers USING warp(e FLOAT[16], b BIT[8], year INTEGER)"
    source = {"e": [None] * 9, "year": range(9)}
    for column, says in {
        "year": "is cut by a column of vectors",
        "b": "is cut by a column of vectors",
        "e": "the source has no vectors",
    }.items():
        with pytest.raises(ClusterError, match=says):
            warplite.cluster.create(tmp_path / "c", schema, source=source, shards=2, cut_by=column)
    with pytest.raises(ClusterError, match="the source has no vectors"):
        warplite.cluster.create(tmp_path / "c", schema, source={"year": range(9)}, shards=2, cut_by="e")
    with pytest.raises(ValueError, match=r"papers\.e takes vectors of 16 elements"):
        warplite.cluster.create(tmp_path / "c", schema, source={"e": rows["e"][:9, :8]}, shards=2, cut_by="e")
