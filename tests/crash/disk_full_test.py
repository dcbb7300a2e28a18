#!/usr/bin/env python3
"""A disk that is full: by SQLite's page limit and by the size limit of the operating system.

usage: disk_full_test.py path/to/warplite.so

Rows are added until it fails; what was committed before stays, what failed is gone, and the
table can be written again once there is room.
"""
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

import common

DIMENSIONS = 64


def row(rowid):
    return rowid, common.vector(*[float((rowid + j) % 97) for j in range(DIMENSIONS)]), f'n{rowid}'


def add(db, first, count):
    db.executemany('INSERT INTO t(id, e, note) VALUES (?, ?, ?)',
                   (row(rowid) for rowid in range(first, first + count)))


def open_table(path, extension, mode):
    db = common.connect(path, extension)
    db.execute(f'PRAGMA journal_mode = {mode}')
    db.execute(f'CREATE VIRTUAL TABLE IF NOT EXISTS t USING warp(id INTEGER PRIMARY KEY, '
               f'e FLOAT[{DIMENSIONS}], +note)')
    return db


def fill(db, batch, explicit):
    """Adds batches until one fails; returns (rows committed, the error)."""
    rows = db.execute('SELECT count(*) FROM t').fetchone()[0]
    for _ in range(100000):
        try:
            if explicit:
                db.execute('BEGIN')
                add(db, rows + 1, batch // 2)
                db.execute('SAVEPOINT s')
                add(db, rows + 1 + batch // 2, batch - batch // 2)
                db.execute('COMMIT')
            else:
                add(db, rows + 1, 1)
            rows += batch if explicit else 1
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute('ROLLBACK')
            return rows, str(error)
    return rows, None


def verify(db, rows, tally, title):
    found = db.execute('SELECT id, e, note FROM t ORDER BY id').fetchall()
    tally.check(found == [row(rowid) for rowid in range(1, rows + 1)],
                f'{title}: {len(found)} rows, {rows} were committed')
    hits = db.execute('SELECT count(*) FROM t WHERE e MATCH ?', (row(1)[1],)).fetchone()[0]
    tally.check(hits == rows, f'{title}: a search finds {hits} of {rows} rows')
    tally.check(common.integrity_fault(db) is None, f'{title}: {common.integrity_fault(db)}')


def page_limit(extension, mode, batch, explicit, tally):
    title = f'max_page_count, {mode}, {"transactions of " + str(batch) if explicit else "single rows"}'
    directory = tempfile.mkdtemp(prefix='warplite-full-')
    path = os.path.join(directory, 'test.db')
    db = open_table(path, extension, mode)
    db.execute('PRAGMA synchronous = off')
    db.execute(f'PRAGMA max_page_count = {600 if explicit else 60}')
    rows, error = fill(db, batch, explicit)
    tally.check(error is not None and 'full' in error, f'{title}: {error}')
    verify(db, rows, tally, title)
    db.close()
    db = open_table(path, extension, mode)
    verify(db, rows, tally, title + ', opened again')
    add(db, rows + 1, 100)
    verify(db, rows + 100, tally, title + ', with room again')
    db.close()
    shutil.rmtree(directory, ignore_errors=True)


def limited_child(path, extension, mode, batch):
    """Runs under a limit of the file size; prints how many rows were committed."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    db = open_table(path, extension, mode)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000000, 3000000))
    rows, error = fill(db, batch, True)
    print(rows if error else 'no error', flush=True)
    os._exit(0)  # as a crash: nothing is tidied up


def size_limit(extension, mode, batch, tally):
    title = f'RLIMIT_FSIZE, {mode}, transactions of {batch}'
    directory = tempfile.mkdtemp(prefix='warplite-full-')
    path = os.path.join(directory, 'test.db')
    output = subprocess.run([sys.executable, __file__, '--child', path, extension, mode, str(batch)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if tally.check(output.stdout.strip().isdigit(), f'{title}: {output.stdout} {output.returncode}'):
        db = open_table(path, extension, mode)
        rows = int(output.stdout)
        verify(db, rows, tally, title)
        add(db, rows + 1, 100)
        verify(db, rows + 100, tally, title + ', with room again')
        db.close()
    shutil.rmtree(directory, ignore_errors=True)


def main():
    extension, tally = common.extension_path(), common.Tally()
    for mode in ('wal', 'delete'):
        page_limit(extension, mode, 1, False, tally)
        page_limit(extension, mode, 100, True, tally)
        page_limit(extension, mode, 5000, True, tally)
        size_limit(extension, mode, 500, tally)
        size_limit(extension, mode, 6000, tally)
    tally.finish()


if __name__ == '__main__':
    if sys.argv[1] == '--child':
        limited_child(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        main()
