#!/usr/bin/env python3
"""kill -9 at random moments of writing transactions.

usage: kill_test.py path/to/warplite.so [rounds [seed [index [option]]]]

A child commits numbered transactions and prints each number after its COMMIT. The parent kills
it, opens the file again and expects the rows of exactly the transactions that were printed,
plus at most the one that was being committed. With an index that learns, such as
"ivfflat(lists=8)" or "lsh(refine=10000)", the child trains it now and then. With the table option store=codes vectors
are compared with those that the codes say.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import common

DIMENSIONS = 24


def transaction(i):
    """What transaction i does: (kind, first rowid, count) steps, the same in every process."""
    rng = random.Random(i)
    size = rng.choice((1, 1, 3, 20, 200, 3000))
    steps = [('insert', i * 10000, size)]
    if i % 3 == 0:
        steps.append(('delete', rng.randint(max(1, i - 20), i) * 10000, rng.choice((1, 10, 3000))))
    if i % 4 == 0:
        steps.append(('update', rng.randint(max(1, i - 20), i) * 10000, rng.choice((1, 5, 100))))
    return steps


def row(i, rowid):
    values = [float((rowid * 7 + i + j) % 101) for j in range(DIMENSIONS)]
    return rowid, common.vector(*values), i, f'note {i} of {rowid}'


def apply_to_model(i, rows):
    for kind, first, count in transaction(i):
        if kind == 'insert':
            rows.update((rowid, row(i, rowid)) for rowid in range(first, first + count))
        else:
            for rowid in range(first, first + count):
                if rowid in rows and kind == 'delete':
                    del rows[rowid]
                elif rowid in rows:
                    rows[rowid] = row(i, rowid)


def apply_to_table(i, db):
    for kind, first, count in transaction(i):
        if kind == 'insert':
            db.executemany('INSERT INTO t(id, e, a, note) VALUES (?, ?, ?, ?)',
                           (row(i, rowid) for rowid in range(first, first + count)))
        elif kind == 'delete':
            db.execute('DELETE FROM t WHERE id >= ? AND id < ?', (first, first + count))
        else:
            found = db.execute('SELECT id FROM t WHERE id >= ? AND id < ?', (first, first + count))
            for (rowid,) in found.fetchall():
                _, e, a, note = row(i, rowid)
                db.execute('UPDATE t SET e = ?, a = ?, note = ? WHERE id = ?', (e, a, note, rowid))


def child(path, extension, start, index):
    db = common.connect(path, extension)
    for i in range(start, start + 100000):
        db.execute('BEGIN')
        apply_to_table(i, db)
        db.execute('INSERT INTO log VALUES (?)', (i,))
        if i % 17 == 0:
            db.execute("INSERT INTO t(t) VALUES ('optimize')")
        if index and i % 13 == 5:
            db.execute("INSERT INTO t(t) VALUES ('train')")
        db.execute('COMMIT')
        print(i, flush=True)


def agree(rows, expected, codes):
    """Whether the rows are those expected; of vectors that were coded something near them."""
    if not codes:
        return rows == expected
    if [row[:1] + row[2:] for row in rows] != [row[:1] + row[2:] for row in expected]:
        return False
    far = sum(nearest([a], struct.unpack(f'<{DIMENSIONS}f', b[1]), 1)[0] > DIMENSIONS * 20**2
              for a, b in zip(rows, expected))
    return far <= len(rows) / 100


def run_until_killed(path, extension, start, seconds, index):
    """The last transaction that the child reported."""
    process = subprocess.Popen([sys.executable, __file__, '--child', path, extension, str(start),
                                index], stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()  # the extension is loaded and the first COMMIT is done
    time.sleep(seconds)
    process.kill()
    rest = process.stdout.read()
    process.wait()
    lines = [line for line in (first + rest).split('\n')[:-1] if line]
    return int(lines[-1]) if lines else start - 1


def nearest(rows, values, k):
    """Squared distances of the k nearest rows."""
    stored = (struct.unpack(f'<{DIMENSIONS}f', row[1]) for row in rows)
    return sorted(sum((x - y) ** 2 for x, y in zip(v, values)) for v in stored)[:k]


def verify(path, extension, reported, model, tally, title, index, codes):
    """Checks the file against the model; returns the last committed transaction."""
    db = common.connect(path, extension)
    committed = db.execute('SELECT coalesce(max(i), 0) FROM log').fetchone()[0]
    tally.check(reported <= committed <= reported + 1,
                f'{title}: {reported} transactions were reported, {committed} are there')
    for i in range(model['at'] + 1, committed + 1):
        apply_to_model(i, model['rows'])
    model['at'] = committed
    rows = db.execute('SELECT id, e, a, note FROM t ORDER BY id').fetchall()
    expected = [model['rows'][rowid] for rowid in sorted(model['rows'])]
    tally.check(agree(rows, expected, codes), f'{title}: {len(rows)} rows differ from the {len(expected)} expected')
    query = common.vector(*([50.0] * DIMENSIONS))
    hits = db.execute('SELECT count(*) FROM t WHERE e MATCH ?', (query,)).fetchone()[0]
    tally.check(hits == len(expected), f'{title}: a search finds {hits} of {len(expected)} rows')
    if index:
        lists = '' if index.startswith('lsh') else ' AND nprobe = 8'
        found = [row[0] ** 2 for row in db.execute(
            'SELECT distance FROM t WHERE e MATCH ? AND k = 20' + lists, (query,))]
        want = nearest(expected, [50.0] * DIMENSIONS, 20)
        if codes:
            found, want = [len(found)], [len(want)]
        same = len(found) == len(want) and all(abs(x - y) < 1e-3 for x, y in zip(found, want))
        tally.check(same, f'{title}: {found} are not the nearest, {want}')
    fault = common.integrity_fault(db)
    tally.check(fault is None, f'{title}: {fault}')
    db.close()
    return committed


def main():
    extension = common.extension_path()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    index = sys.argv[4] if len(sys.argv) > 4 else ''
    option = ', ' + sys.argv[5] if len(sys.argv) > 5 else ''
    tally = common.Tally()
    for mode in ('wal', 'delete'):
        directory = tempfile.mkdtemp(prefix='warplite-kill-')
        path = os.path.join(directory, 'test.db')
        db = common.connect(path, extension)
        db.execute(f'PRAGMA journal_mode = {mode}')
        db.execute(f'CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, '
                   f'e FLOAT[{DIMENSIONS}] {"index=" + index if index else ""}, a INTEGER, +note{option})')
        db.execute('CREATE TABLE log(i INTEGER PRIMARY KEY)')
        db.close()
        model, committed = {'at': 0, 'rows': {}}, 0
        for number in range(rounds):
            seconds = rng.choice((0.0, 0.02, 0.1, 0.3, 0.6))
            reported = run_until_killed(path, extension, committed + 1, seconds, index)
            title = f'{mode}, round {number}'
            committed = verify(path, extension, reported, model, tally, title, index,
                               option != '')
        print(f'{mode}: {committed} transactions, {len(model["rows"])} rows after {rounds} kills')
        shutil.rmtree(directory, ignore_errors=True)
    tally.finish()


if __name__ == '__main__':
    if sys.argv[1] == '--child':
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    else:
        main()
