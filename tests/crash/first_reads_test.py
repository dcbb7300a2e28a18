#!/usr/bin/env python3
"""What a process reads first of a table's blocks, past SQLite where it can, against what it reads through
SQLite alone (in memory): with every journal, with pages in the log, beside a process that writes, of damaged
files.

usage: first_reads_test.py path/to/warplite.so
"""
import os
import random
import sqlite3
import tempfile

import common

DIM, ROWS = 512, 5000
QUESTIONS = (
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM warp_knn_search('t', 'v', :v, 20, '{\"exact\": true}'))",
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM warp_knn_search('t', 'i', :v, 20, '{\"nprobe\": 3}'))",
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM warp_knn_search('c', 'i', :v, 20, '{\"nprobe\": 3}'))",
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM t WHERE v MATCH :v AND k = 20 AND name > 'n5')",
)


def vectors(seed, count):
    rnd = random.Random(seed)
    centers = [[rnd.gauss(0, 1) for _ in range(DIM)] for _ in range(8)]
    for row in range(count):
        center = centers[row % 8]
        at = rnd.randrange(DIM - 8)
        yield common.vector(*center[:at], *(rnd.gauss(0, 1) for _ in range(8)), *center[at + 8:])


def fill(db):
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(v FLOAT[{DIM}], i FLOAT[{DIM}] index=ivfrabitq(lists=8), "
               f"name TEXT)")
    db.execute(f"CREATE VIRTUAL TABLE c USING warp(i FLOAT[{DIM}] index=ivfrabitq(lists=8), store=codes)")


def insert(db, first, count):
    rows = [(first + n, v, v, f'n{n % 10}') for n, v in enumerate(vectors(first, count))]
    db.execute('BEGIN')
    db.executemany('INSERT INTO t(rowid, v, i, name) VALUES (?, ?, ?, ?)', rows)
    db.executemany('INSERT INTO c(rowid, i) VALUES (?, ?)', [row[:2] for row in rows])
    db.execute('COMMIT')


def answers(db):
    query = next(vectors(1, 1))
    return [db.execute(question, {'v': query}).fetchone()[0] for question in QUESTIONS]


def through_sqlite(path):
    memory = common.connect(':memory:', common.extension_path())
    source = sqlite3.connect(path)
    source.backup(memory)
    source.close()
    return answers(memory)


def apart(body):
    """Returns what body() does, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            said = repr(body())
        except Exception as error:
            said = repr(f'{type(error).__name__}: {error}')
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, 'rb') as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return eval(said)


def first_answers(path, settings=()):
    db = common.connect(path, common.extension_path())
    for setting in settings:
        db.execute(setting)
    return answers(db)


def make(path, journal, page):
    db = common.connect(path, common.extension_path())
    db.execute(f'PRAGMA page_size = {page}')
    db.execute(f'PRAGMA journal_mode = {journal}')
    db.execute('PRAGMA wal_autocheckpoint = 0')
    fill(db)
    insert(db, 1, ROWS)
    for table in 't', 'c':
        db.execute(f"INSERT INTO {table}({table}) VALUES ('train')")
    return db


def write_beside(path):
    db = common.connect(path, common.extension_path())
    db.execute('DELETE FROM t WHERE rowid % 3 = 0')
    insert(db, ROWS + 1, 2000)
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    db.execute('PRAGMA wal_checkpoint(PASSIVE)')
    return db.execute('SELECT count(*) FROM t').fetchone()[0]


def beside_a_writer(tally, path):
    """A snapshot's first reads come after others have changed what it sees."""
    expected = apart(lambda: through_sqlite(path))

    def read():
        db = common.connect(path, common.extension_path())
        db.execute('BEGIN')
        db.execute('SELECT count(*) FROM t_blocks').fetchone()
        apart(lambda: write_beside(path))
        before = answers(db)
        db.execute('COMMIT')
        return before, answers(db)

    before, after = apart(read)
    tally.check(before == expected, 'a snapshot is read while others write')
    tally.check(after == apart(lambda: through_sqlite(path)), 'and what they wrote is read after it')


def damaged(tally, path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('PRAGMA journal_mode = DELETE')
    for table in 't', 'c':
        blocks = {}
        for block, data in db.execute(f'SELECT id, data FROM {table}_blocks WHERE id >= 4096 ORDER BY id'):
            if data[5] >= 3:  # vectors, plain columns, codes: the first block of each kind
                blocks.setdefault(data[5], (block, data))
        for kind, (block, data) in blocks.items():
            wrong = bytearray(data)
            wrong[len(data) // 2] ^= 1
            update = f'UPDATE {table}_blocks SET data = ? WHERE id = ?'
            db.execute(update, (wrong, block))
            said = str(apart(lambda: first_answers(path)))
            tally.check(f'{table}: segment {block // 4096}, ' in said and 'column' in said, f'kind {kind}: {said}')
            db.execute(update, (data, block))
    db.close()


def main():
    tally = common.Tally()
    for journal, page in (('DELETE', 4096), ('WAL', 4096), ('WAL', 65536), ('TRUNCATE', 1024)):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'a.db')
            db = make(path, journal, page)
            expected = apart(lambda: through_sqlite(path))
            for settings in ((), ('PRAGMA mmap_size = 1000000000',), ("SELECT warp_config('threads', 1)",),
                             ("SELECT warp_config('cpu_memory_limit', 8000000)",)):
                tally.check(apart(lambda: first_answers(path, settings)) == expected, f'{journal} {page} {settings}')
            if journal == 'WAL':
                db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
                tally.check(apart(lambda: first_answers(path)) == expected, f'{journal} {page}, after a checkpoint')
                beside_a_writer(tally, path)
            db.close()
            if page == 4096:
                damaged(tally, path)
    tally.finish()


if __name__ == '__main__':
    main()
