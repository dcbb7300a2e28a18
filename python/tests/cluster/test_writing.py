"""Rows that come and go: a reader sees all of a commit or nothing, whoever dies on the way."""

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
