#!/usr/bin/env python3
"""What a GPU does to a whole process: it starts in the background, it is lost, searches are
interrupted, memory stays where it is after 10,000 of them, several GPUs share the work, one has
no room for codes, filters come by turns, a library of products is missing.

    tests/gpu/process_test.py EXTENSION [SCENARIO]

Each scenario runs in a process of its own; answers are compared with the CPU's. Skips where the
machine has no GPU.
"""
import array
import ctypes
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'crash'))
from common import Tally, connect, extension_path

DIM = 64
ROWS = 400000
SEARCH = 'SELECT rowid, distance FROM t WHERE e MATCH ? AND k = 10'
JOIN = ("SELECT query_id, rowid, distance FROM "
        "warp_knn_join('t', '%s', 'SELECT id, v FROM q', %d) ORDER BY 1, 3, 2")
INSISTING_JOIN = """SELECT query_id, rowid FROM
    warp_knn_join('t', 'e', 'SELECT id, v FROM q', 10, '{"device": "gpu"}')"""

tally = Tally()


def vectors(count, seed):
    source = random.Random(seed)
    raw = array.array('f', (source.random() for _ in range(DIM * 64)))
    for _ in range(count):
        at = source.randrange(DIM * 63)
        part = raw[at:at + DIM]
        part[source.randrange(DIM)] = source.random() * 2
        yield part.tobytes()


def make_table(path, extension):
    db = connect(path, extension)
    db.execute(f'CREATE VIRTUAL TABLE t USING warp(e FLOAT[{DIM}], a FLOAT[{DIM}] distance=l1)')
    db.execute('CREATE TABLE q(id INTEGER PRIMARY KEY, v BLOB)')
    db.execute('BEGIN')
    db.executemany('INSERT INTO t(e, a) VALUES (?, ?)', ((v, v) for v in vectors(ROWS, 1)))
    db.executemany('INSERT INTO q(v) VALUES (?)', ((v,) for v in vectors(10000, 2)))
    db.execute('COMMIT')
    db.close()


def device(db, name):
    db.execute("SELECT warp_config('device', ?)", (name,)).fetchall()


def state(db, name='gpu:0'):
    row = db.execute('SELECT state, usable, searches, memory_used FROM warp_devices() '
                     'WHERE name = ?', (name,)).fetchone()
    return row or ('absent', 0, 0, 0)


def on_cpu(db, sql, *arguments):
    device(db, 'cpu')
    rows = db.execute(sql, arguments).fetchall()
    device(db, 'auto')
    return rows


def resident_bytes():
    with open('/proc/self/status') as status:
        for line in status:
            if line.startswith('VmRSS'):
                return int(line.split()[1]) * 1024
    return 0


class Driver:
    """CUDA's driver interface, in the context that the plug-in uses."""

    def __init__(self):
        self.library = ctypes.CDLL('libcuda.so.1')
        self.call('cuInit', 0)
        gpu, context = ctypes.c_int(), ctypes.c_void_p()
        self.call('cuDeviceGet', ctypes.byref(gpu), 0)
        self.call('cuDevicePrimaryCtxRetain', ctypes.byref(context), gpu)
        self.call('cuCtxSetCurrent', context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise OSError(f'{name}: error {code}')

    def free_memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call('cuMemGetInfo_v2', ctypes.byref(free), ctypes.byref(total))
        return free.value

    def fault(self):
        """A kernel that writes where nothing is: nothing in this context works afterwards."""
        text = (b'.version 7.0\n.target sm_75\n.address_size 64\n.visible .entry fault() {\n'
                b'.reg .u64 %a;\nmov.u64 %a, 64;\nst.global.u64 [%a], %a;\nret;\n}\n')
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call('cuModuleLoadData', ctypes.byref(module), text)
        self.call('cuModuleGetFunction', ctypes.byref(function), module, b'fault')
        self.call('cuLaunchKernel', function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        return self.library.cuCtxSynchronize()


def start(db):
    """The first answer does not wait for the GPU; later ones come from it."""
    question = next(vectors(1, 3))
    begin = time.monotonic()
    first = db.execute(SEARCH, (question,)).fetchall()
    first_ms = (time.monotonic() - begin) * 1e3
    early = db.execute("SELECT sum(bytes) FROM warp_residency() WHERE device LIKE 'gpu%'").fetchone()
    answers = [first]
    while state(db)[2] == 0 and time.monotonic() - begin < 60:
        answers.append(db.execute(SEARCH, (question,)).fetchall())
        time.sleep(0.01)
    ready_ms = (time.monotonic() - begin) * 1e3
    expected = on_cpu(db, SEARCH, question)
    print(f'first answer {first_ms:.0f} ms (GPU bytes then: {early[0]}), from the GPU after '
          f'{ready_ms:.0f} ms, {len(answers)} answers meanwhile')
    tally.check(state(db)[2] > 0, 'the GPU never answered: %s' % (state(db),))
    tally.check(len(answers) > 1, 'the first answer waited for the GPU')
    tally.check(all(rows == expected for rows in answers), 'an answer changed on the way')


def soak(db):
    """10,000 searches: memory of both kinds stays where it is."""
    device(db, 'gpu')
    driver = Driver()
    questions = list(vectors(100, 4))

    def search(times):
        for i in range(times):
            db.execute(SEARCH, (questions[i % 100],)).fetchall()
        for _ in range(times // 500):
            db.execute(JOIN % ('e', 10)).fetchall()
        return resident_bytes(), driver.free_memory(), state(db)[3]

    search(500)
    before = search(500)
    after = search(10000)
    print('host, GPU free, GPU used before and after:', before, after)
    tally.check(after[0] < before[0] + (16 << 20), 'host memory grew')
    tally.check(after[1] >= before[1] - (1 << 20), 'GPU memory grew')
    tally.check(after[2] == before[2], 'the account of GPU memory grew')


def interrupt(db):
    """A join of several seconds ends within 50 ms of the interrupt; the next search works."""
    device(db, 'gpu')
    db.execute(f'CREATE VIRTUAL TABLE c USING warp(e FLOAT[{DIM}] index=ivfrabitq(lists=1024))')
    db.execute('INSERT INTO c(e) SELECT e FROM t')
    many = """SELECT query_id, rowid, distance FROM warp_knn_join('c', 'e',
        'SELECT 16 * q.id + n.id, q.v FROM q JOIN q n ON n.id <= 16', 10, '{"nprobe": 1000}')"""
    joins = {'a': JOIN % ('a', 10), 'e': JOIN % ('e', 512), 'codes': many}
    for column, sql in joins.items():
        db.execute(sql).fetchone()
        worst = whole = 0
        for wait in (0.002, 0.03, 0.1):
            asked = []

            def ask():
                asked.append(time.monotonic())
                db.interrupt()

            timer = threading.Timer(wait, ask)
            begin = time.monotonic()
            timer.start()
            try:
                for _ in db.execute(sql):
                    pass
                whole = time.monotonic() - begin
                timer.join()
            except sqlite3.OperationalError as error:
                tally.check('interrupt' in str(error), 'came: ' + str(error))
                worst = max(worst, time.monotonic() - asked[0])
        print(f'join on {column}: interrupted within {worst * 1e3:.1f} ms'
              + (f', or done after {whole * 1e3:.0f} ms' if whole else ''))
        tally.check(worst < 0.05, 'an interrupt took %.0f ms' % (worst * 1e3))
    question = next(vectors(1, 5))
    tally.check(db.execute(SEARCH, (question,)).fetchall() == on_cpu(db, SEARCH, question),
                'the search after an interrupt')


def lost(db):
    """A context that a faulty kernel took down: the CPU answers, and warp_devices() says why."""
    question = next(vectors(1, 6))
    device(db, 'gpu')
    expected = db.execute(SEARCH, (question,)).fetchall()
    device(db, 'auto')
    code = Driver().fault()
    tally.check(code != 0, 'the kernel did not fault')
    tally.check(db.execute(SEARCH, (question,)).fetchall() == expected, 'the first search after it')
    tally.check(db.execute(SEARCH, (question,)).fetchall() == expected, 'the next')
    now = state(db)
    print(now)
    tally.check(now[0].startswith('lost') and now[1] == 0, 'warp_devices() says %s' % (now,))
    db.execute('DELETE FROM t WHERE rowid = ?', (expected[0][0],))
    tally.check(db.execute(SEARCH, (question,)).fetchall()[0] == expected[1], 'after a change')


def several(db):
    """Several GPUs: copies where the table fits on each, shares of two and more where it does not."""
    gpus = [name for name, in db.execute("SELECT name FROM warp_devices() WHERE name LIKE 'gpu%' AND usable")]
    if len(gpus) < 2:
        print('skipped: one GPU')
        return
    expected = on_cpu(db, JOIN % ('e', 10))
    question = next(vectors(1, 7))
    one = on_cpu(db, SEARCH, question)
    device(db, 'gpu')
    per_column = ROWS * DIM * 4
    for limit in (per_column * 4, per_column * 6 // 10):
        db.execute("SELECT warp_config('gpu_memory_limit', ?)", (limit,)).fetchall()
        for _ in range(3):
            tally.check(db.execute(JOIN % ('e', 10)).fetchall() == expected, 'a join')
            tally.check(db.execute(SEARCH, (question,)).fetchall() == one, 'a search')
        held = db.execute("SELECT device, sum(bytes) FROM warp_residency() "
                          "WHERE device LIKE 'gpu%' GROUP BY 1").fetchall()
        print(f'limit {limit >> 20} MB:', held, [state(db, gpu)[2] for gpu in gpus])
        tally.check(2 <= len(held) <= len(gpus), 'several hold rows: %s' % (held,))
        tally.check(all(bytes <= limit for _, bytes in held), 'the limit: %s' % (held,))
    searched = [gpu for gpu in gpus if state(db, gpu)[2] > 0]
    tally.check(len(searched) > 1, 'several searched: %s' % (searched,))


def codes(db):
    """Codes beyond the limit: a GPU holds the signs, and reads the other bits over the bus."""
    db.execute(f'CREATE VIRTUAL TABLE b USING warp(e FLOAT[{DIM}] '
               'index=ivfrabitq(lists=1024, bits=5), store=codes)')
    db.execute('INSERT INTO b(e) SELECT e FROM t')
    batch = """SELECT query_id, rowid, distance FROM
        warp_knn_join('b', 'e', 'SELECT id, v FROM q', 10, '{"nprobe": 64}') ORDER BY 1, 3, 2"""
    one = 'SELECT rowid, distance FROM b WHERE e MATCH ? AND k = 10 AND nprobe = 64'
    question = next(vectors(1, 9))
    expected, nearest = on_cpu(db, batch), on_cpu(db, one, question)
    device(db, 'gpu:0')
    whole = 0
    for part in (1, 0.8, 0.45):
        db.execute("SELECT warp_config('gpu_memory_limit', ?)", (int(whole * part),)).fetchall()
        times = []
        for _ in range(5):
            begin = time.monotonic()
            tally.check(db.execute(batch).fetchall() == expected, f'a batch, limit {part}')
            times.append(time.monotonic() - begin)
            tally.check(db.execute(one, (question,)).fetchall() == nearest, f'a search, limit {part}')
        held = dict(db.execute("SELECT state, sum(bytes) FROM warp_residency() "
                               "WHERE device = 'gpu:0' GROUP BY 1").fetchall())
        print(f'limit {part}:', held, f'batch {min(times) * 1e3:.0f} ms')
        whole = whole or sum(held.values())
        tally.check(sum(held.values()) <= whole * part, 'the limit: %s' % (held,))
        tally.check(('partial' in held) == (part < 1), 'states: %s' % (held,))
        tally.check('mapped' not in held, 'states: %s' % (held,))


def turns(db):
    """What is kept of the rows of one search serves no other: filters by turns, while rows come and go."""
    filters = ('', ' AND n < 9000', ' AND n % 3 = 1', ' AND n BETWEEN 400 AND 700')
    for kind in ('ivfrabitq(lists=64, bits=4)', 'ivfflat(lists=64)', 'ivfpq(lists=64, m=16)'):
        db.execute(f'CREATE VIRTUAL TABLE u USING warp(e FLOAT[{DIM}] index={kind}, n INTEGER)')
        db.execute('INSERT INTO u(e, n) SELECT e, rowid FROM t WHERE rowid <= 60000')
        for number, question in enumerate(vectors(12, 3)):
            for some in filters:
                sql = 'SELECT rowid, distance FROM u WHERE e MATCH ? AND k = 20 AND %s' + some
                expected = on_cpu(db, sql % 'nprobe = 16', question)
                exact = on_cpu(db, sql % 'recall = 1', question)  # a GPU may compare what a filter leaves
                device(db, 'gpu:0')
                found = db.execute(sql % 'nprobe = 16', (question,)).fetchall()
                tally.check(found in (expected, exact), f'{kind}, change {number}, WHERE{some}')
            if number % 3 == 0:
                db.execute('DELETE FROM u WHERE rowid = ?', (expected[0][0],))
            elif number % 3 == 1:
                db.execute('INSERT INTO u(e, n) VALUES (?, 500)', (question,))
            else:
                db.execute('BEGIN')
                db.execute('DELETE FROM u WHERE n < 400')
                device(db, 'gpu:0')
                db.execute(sql % 'nprobe = 16', (question,)).fetchall()
                db.execute('ROLLBACK')
        db.execute('DROP TABLE u')


SHORT_LIFE = """
import sqlite3, sys, threading, time
def search():
    db = sqlite3.connect(':memory:', check_same_thread=False)
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    db.execute('CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])')
    db.execute("INSERT INTO t(e) VALUES ('[1, 2]')")
    db.execute("SELECT warp_config('device', 'gpu')").fetchall()
    assert len(db.execute("SELECT rowid FROM t WHERE e MATCH '[1, 2]' AND k = 1").fetchall()) == 1
    return db
held = []
if sys.argv[3] == 'main':
    held.append(search())
else:
    thread = threading.Thread(target=lambda: held.append(search()))
    thread.start()
    thread.join()
time.sleep(float(sys.argv[2]))
"""


def ends(db):
    """Processes that end while the GPU starts, at any moment of it."""
    extension = extension_path()
    waits = [i * 0.02 for i in range(60)]
    for thread in ('main', 'other'):
        codes = []
        for at in range(0, len(waits), 6):
            running = [subprocess.Popen([sys.executable, '-c', SHORT_LIFE, extension, str(wait), thread])
                       for wait in waits[at:at + 6]]
            codes += [process.wait() for process in running]
        print(f'{len(codes)} processes, the search by the {thread} thread: {codes.count(0)} ended well')
        tally.check(not any(codes), f'{thread} thread: ended with {sorted(set(codes))}')


def product(db):
    """cuBLAS that is asked for and not there: a batch says what was looked for, one query needs none."""
    os.environ.update(WARPLITE_GPU_PRODUCT='cublas', WARPLITE_CUBLAS='/nowhere/libcublas.so')
    device(db, 'gpu')
    try:
        db.execute(INSISTING_JOIN).fetchall()
        said = 'an answer'
    except sqlite3.Error as error:
        said = str(error)
    print(said)
    tally.check('cuBLAS' in said and '/nowhere/libcublas.so' in said, 'came: ' + said)
    question = next(vectors(1, 8))
    tally.check(db.execute(SEARCH, (question,)).fetchall() == on_cpu(db, SEARCH, question), 'one query')
    tally.check(state(db)[1] == 1, 'warp_devices() says %s' % (state(db),))


SCENARIOS = {f.__name__: f for f in (start, ends, soak, interrupt, several, codes, turns, product, lost)}


def main():
    extension = extension_path()
    probe = connect(':memory:', extension)
    usable = probe.execute("SELECT count(*) FROM warp_devices() WHERE name LIKE 'gpu%' AND usable")
    if len(sys.argv) > 3:
        SCENARIOS[sys.argv[2]](connect(sys.argv[3], extension))
        tally.finish()
    if usable.fetchone()[0] == 0:
        print('skipped: no GPU')
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'gpu.db')
        make_table(path, extension)
        for name in [sys.argv[2]] if len(sys.argv) > 2 else SCENARIOS:
            print('==', name, flush=True)
            code = subprocess.call([sys.executable, __file__, sys.argv[1], name, path])
            tally.check(code == 0, name)
    tally.finish()


main()
