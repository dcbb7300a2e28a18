"""What dies, hangs or is damaged: asked again, then a replica, then an error, and never a smaller answer."""

import os
import random
import shutil
import signal
import threading
import time

import numpy as np
import pytest
import ray

import warplite
import warplite.cluster
from warplite.cluster import ClusterError, OverloadedError, ShardError, TimedOutError, _writing
from warplite.cluster._waiting import CALLER, Caller

from .conftest import ROWS, SCHEMA, table_of
from .test_answers import same_neighbors


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("failures")
    warplite.cluster.create(path / "c", SCHEMA, source=rows, shards=4, replicas=[path / "copies"])
    return path / "c"


def processes(cluster):
    return [ray.get(actor.ready.remote()) for group in cluster._started.groups for actor in group]


def first_answer(cluster, rows, one_file):
    """Searches until there is a line to each actor, so that what is killed then breaks one."""
    end = time.monotonic() + 120
    while True:
        same_neighbors(cluster.search("e", rows["e"][:20], 12), one_file, rows["e"][:20], 12)
        if all(lines._idle for group in cluster._started.lines for lines in group):
            return
        assert time.monotonic() < end, "no lines"


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_killed_actor(folder, rows, one_file, replicas):
    with warplite.cluster.open(folder, actors=2, replicas=replicas) as cluster:
        first_answer(cluster, rows, one_file)
        for victim in processes(cluster):
            os.kill(victim, signal.SIGKILL)
            same_neighbors(cluster.search("e", rows["e"][:20], 12), one_file, rows["e"][:20], 12)
        first_answer(cluster, rows, one_file)


def test_a_replica_answers_for_one_that_hangs(folder, rows, one_file):
    with warplite.cluster.open(folder, actors=1, replicas=2, patience=0.5) as cluster:
        first_answer(cluster, rows, one_file)
        victim = processes(cluster)[0]
        os.kill(victim, signal.SIGSTOP)
        try:
            for _ in range(2):  # each replica has its turn
                same_neighbors(cluster.search("e", rows["e"][:20], 12), one_file, rows["e"][:20], 12)
        finally:
            os.kill(victim, signal.SIGCONT)


def test_one_that_hangs_is_started_again(folder, rows, one_file):
    with warplite.cluster.open(folder, actors=1) as cluster:
        first_answer(cluster, rows, one_file)
        cluster._policy = warplite.cluster._asking.Policy(timeout=1.0, tries=4)
        victim = processes(cluster)[0]
        os.kill(victim, signal.SIGSTOP)
        try:
            found, end = None, time.monotonic() + 300
            while found is None and time.monotonic() < end:  # a busy machine takes its time to start a process
                try:
                    found = cluster.search("e", rows["e"][:20], 12)
                except ShardError as error:
                    assert "no answer within 3 s" in str(error)
            ids, _ = warplite.search(one_file, "papers", "e", rows["e"][:20], 12)
            np.testing.assert_array_equal(found.ids, ids)
            assert processes(cluster) != [victim]
        finally:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass


def damage(path):
    content = bytearray(path.read_bytes())
    content[5000 : len(content) // 2] = os.urandom(len(content) // 2 - 5000)
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["missing", "damaged", "truncated", "another", "empty", "other table"])
def test_a_file_that_cannot_be_read(rows, one_file, tmp_path, how):
    warplite.cluster.create(tmp_path / "c", SCHEMA, source=rows, shards=4, replicas=[tmp_path / "copies"])
    manifest = warplite.cluster.open(tmp_path / "c").manifest
    victim = tmp_path / "c" / manifest.shards[2].file
    if how == "missing":
        victim.unlink()
    elif how == "damaged":
        damage(victim)
    elif how == "truncated":
        os.truncate(victim, 3 * 4096)
    elif how == "empty":
        os.truncate(victim, 0)
    elif how == "other table":
        victim.unlink()
        with warplite.connect(victim) as db:
            db.execute("CREATE TABLE other(a)")
    else:
        victim.write_bytes(b"no database at all" * 1000)
    with warplite.cluster.open(tmp_path / "c", actors=2) as cluster:
        same_neighbors(cluster.search("e", rows["e"][:20], 12), one_file, rows["e"][:20], 12)  # from the copy
    shutil.rmtree(tmp_path / "copies")
    with warplite.cluster.open(tmp_path / "c", actors=2) as cluster:
        with pytest.raises(ShardError, match="1 shards gave no answer: shards/0002-1.db"):
            cluster.search("e", rows["e"][:20], 12)
        found = cluster.search("e", rows["e"][:20], 12, allow_partial=True)
        assert found.coverage == 0.75
        same_neighbors(found, one_file, rows["e"][:20], 12, filter="id NOT BETWEEN 2000 AND 2999")
        assert cluster.match_count({"venue": "VLDB"}, 9, allow_partial=True).coverage == 0.75


SLOW = "length(replace(hex(zeroblob(20000000 + year)), '00', '1')) > 0"  # a tenth of a second for each row


def test_a_search_that_takes_too_long(folder, rows):
    with warplite.cluster.open(folder, actors=1) as cluster:
        cluster.search("e", rows["e"][:1], 1)
        cluster._policy = warplite.cluster._asking.Policy(timeout=0.3)
        began = time.monotonic()
        with pytest.raises(TimedOutError, match="took too long|no time was left"):
            cluster.search("e", rows["e"][:1], 1, filter=SLOW)
        assert time.monotonic() - began < 30
        cluster._policy = warplite.cluster._asking.Policy()
        assert cluster.search("e", rows["e"][:1], 1).coverage == 1


def test_batches_in_flight_are_bounded(folder, rows):
    with warplite.cluster.open(folder, actors=1, in_flight=1, waiting=1) as cluster:
        cluster.search("e", rows["e"][:1], 1)
        asked, most, lock = 0, 0, threading.Lock()
        ask = cluster._ask_once

        def count(*arguments):
            nonlocal asked, most
            with lock:
                asked += 1
                most = max(most, asked)
            try:
                time.sleep(0.5)
                return ask(*arguments)
            finally:
                with lock:
                    asked -= 1

        cluster._ask_once = count
        refused = []

        def search():
            try:
                cluster.search("e", rows["e"][:1], 1)
            except OverloadedError:
                refused.append(1)

        threads = [threading.Thread(target=search) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 1 and len(refused) == 3


def in_threads(ask, count):
    """Returns what so many calls raised, and after how many seconds."""
    ended = []

    def call(number):
        began = time.monotonic()
        try:
            ask(number)
            ended.append((None, time.monotonic() - began))
        except ClusterError as error:
            ended.append((type(error), time.monotonic() - began))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


@pytest.mark.parametrize("in_flight", [1, 4])
def test_the_time_of_a_search_passes_while_it_waits(folder, rows, in_flight):
    """Be it before it is asked, or in the actor, behind others."""
    with warplite.cluster.open(folder, actors=1, in_flight=in_flight, timeout=2.0) as cluster:
        cluster.search("e", rows["e"][:1], 1)
        ended = in_threads(lambda _: cluster.search("e", rows["e"][:1], 1, filter=SLOW), 6)
        assert {kind for kind, _ in ended} == {TimedOutError}
        assert max(seconds for _, seconds in ended) < 2 * 2 + 2
        assert cluster.search("e", rows["e"][:1], 1).coverage == 1


def test_who_has_left_is_not_searched_for(folder, rows):
    with warplite.cluster.open(folder, actors=1, in_flight=1, waiting=1) as cluster:
        cluster.search("e", rows["e"][:1], 1)
        callers, asked, ask, go = [Caller() for _ in range(3)], [], cluster._ask_once, threading.Event()

        def wait(*arguments):
            asked.append(CALLER.get())
            go.wait(60)
            return ask(*arguments)

        def search(number):
            CALLER.set(callers[number])
            if number:  # one after the other, when the place and the room are taken, and the room is free again
                while len(asked) < 1:
                    time.sleep(0.01)
            if number == 2:
                while not callers[1].has_left or cluster.gate._queue:
                    time.sleep(0.01)
                threading.Timer(0.2, go.set).start()
            if number == 1:
                threading.Timer(0.2, callers[1].leave).start()
            cluster.search("e", rows["e"][:1], 1)

        cluster._ask_once = wait
        ended = in_threads(search, 3)
        assert sorted(str(kind) for kind, _ in ended) == sorted(map(str, [None, None, ClusterError]))
        assert asked == [callers[0], callers[2]]


def under_fire(cluster, rows, one_file, seconds, seed):
    """Searches by two threads while actors are killed at random; returns how many answers and kills there were."""
    chance, stop, answers, errors = random.Random(seed), threading.Event(), [], []
    queries = rows["e"][:60] + 0.25
    ids, distances = warplite.search(one_file, "papers", "e", queries, 10, filter="year > 2000")

    def search():
        while not stop.is_set():
            try:
                found = cluster.search("e", queries, 10, filter="year > 2000")
                np.testing.assert_array_equal(found.ids, ids)
                np.testing.assert_array_equal(found.distances, distances)
                answers.append(found.coverage)
            except BaseException as error:
                errors.append(error)
                return

    first_answer(cluster, rows, one_file)
    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    end, kills = time.monotonic() + seconds, 0
    actors = [actor for group in cluster._started.groups for actor in group]
    while time.monotonic() < end and not errors:
        ray.kill(chance.choice(actors), no_restart=False)
        kills += 1
        time.sleep(chance.uniform(2, 5))
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    assert set(answers) == {1.0}
    return len(answers), kills


def test_actors_die_at_random(folder, rows, one_file):
    with warplite.cluster.open(folder, actors=2, timeout=60) as cluster:
        answers, kills = under_fire(cluster, rows, one_file, 8, 1)
        assert answers and kills


@pytest.mark.skipif("WARPLITE_LONG" not in os.environ, reason="takes minutes")
@pytest.mark.parametrize("replicas", [1, 2])
def test_actors_die_at_random_for_long(folder, rows, one_file, replicas):
    with warplite.cluster.open(folder, actors=2, replicas=replicas, timeout=60) as cluster:
        answers, kills = under_fire(cluster, rows, one_file, 90, replicas)
        assert answers > 20 and kills > 10


@pytest.mark.skipif("WARPLITE_LONG" not in os.environ, reason="takes minutes")
def test_tasks_die_at_random(rows, one_file, tmp_path, monkeypatch):
    """Workers are killed while they fill shards; each shard has its rows once."""
    write, pids = _writing.write, tmp_path / "pids"
    pids.mkdir()

    def write_slowly(folder, replicas, order, pids=str(pids)):
        open(os.path.join(pids, str(os.getpid())), "w").close()
        time.sleep(1)
        return write(folder, replicas, order)

    stop, kills = threading.Event(), []

    def kill():
        chance = random.Random(7)
        while not stop.wait(chance.uniform(0.5, 1.5)) and len(kills) < 4:
            victims = [int(name) for name in os.listdir(pids) if int(name) not in kills]
            if victims:
                kills.append(chance.choice(victims))
                os.kill(kills[-1], signal.SIGKILL)

    monkeypatch.setattr(_writing, "write", write_slowly)
    many = {name: np.concatenate([np.asarray(values)] * 10) for name, values in rows.items()}
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        made = warplite.cluster.create(tmp_path / "c", SCHEMA, source=many, shards=8)
    finally:
        stop.set()
        killer.join()
    assert kills and made.manifest.rows == 10 * ROWS
    one = table_of(many, np.arange(10 * ROWS))
    with made:
        same_neighbors(made.search("e", rows["e"][:50], 30), one, rows["e"][:50], 30)
