#!/usr/bin/env python3
"""Two writing processes and two reading ones on one file, in WAL and rollback mode.

usage: two_processes_test.py path/to/warplite.so [seconds [index]]

Every transaction of a writer replaces its own group of rows by rows of one new version. A reader
that is inside BEGIN must see one version per group, and the same rows however often it looks.
With an index that learns, such as "ivfflat(lists=4)", writers train it now and then.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import common

GROUP = 40


def group_rows(group, version):
    """A group keeps its number of rows and changes their rowids, vectors and values."""
    base = group * 1000000 + (version % 7) * 1000
    return [(base + i, common.vector(float(version), float(i), float(group)), version, group,
             f'{version}') for i in range(GROUP)]


def replace_group(db, group, version):
    db.execute('BEGIN IMMEDIATE')
    db.execute('DELETE FROM t WHERE g = ?', (group,))
    db.executemany('INSERT INTO t(id, e, v, g, note) VALUES (?, ?, ?, ?, ?)',
                   group_rows(group, version))
    db.execute('COMMIT')


def train(db):
    db.execute('BEGIN IMMEDIATE')
    db.execute("INSERT INTO t(t) VALUES ('train')")
    db.execute('COMMIT')


def writer(path, extension, group, seconds, index):
    db = common.connect(path, extension)
    until, version = time.time() + seconds, 0
    while time.time() < until:
        version += 1
        replace_group(db, group, version)
        if index and version % 7 == 0:
            train(db)
    print(version)


def look(db):
    """Everything a reader can see, by a scan and by a search."""
    scan = db.execute('SELECT id, e, v, g, note FROM t ORDER BY id').fetchall()
    hits = db.execute('SELECT id, v, g, note FROM t WHERE e MATCH ? AND k = 1000',
                      (common.vector(0.0, 0.0, 0.0),)).fetchall()
    return scan, hits


def snapshot_fault(scan, hits):
    if len(scan) != 2 * GROUP or len(hits) != 2 * GROUP:
        return f'{len(scan)} rows scanned, {len(hits)} found'
    for group in (1, 2):
        versions = {row[2] for row in scan if row[3] == group}
        if len(versions) != 1:
            return f'group {group} shows versions {sorted(versions)}'
        if [row for row in scan if row[3] == group] != sorted(group_rows(group, versions.pop())):
            return f'group {group} shows rows that were never written together'
    if sorted((row[0], row[2], row[3], row[4]) for row in scan) != sorted(hits):
        return 'the search saw other rows than the scan'
    return None


def reader(path, extension, seed, seconds, _):
    db, rng = common.connect(path, extension), random.Random(seed)
    until, looks = time.time() + seconds, 0
    while time.time() < until:
        db.execute('BEGIN')
        first = look(db)
        fault = snapshot_fault(*first)
        time.sleep(rng.choice((0.0, 0.001, 0.02)))
        if fault is None and look(db) != first:
            fault = 'the snapshot moved inside BEGIN'
        db.execute('COMMIT')
        if fault:
            print(fault)
            return
        looks += 1
    print(looks)


def spawn(*arguments):
    return subprocess.Popen([sys.executable, __file__] + [str(a) for a in arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    extension = common.extension_path()
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
    index = sys.argv[3] if len(sys.argv) > 3 else ''
    tally = common.Tally()
    for mode in ('wal', 'delete'):
        directory = tempfile.mkdtemp(prefix='warplite-processes-')
        path = os.path.join(directory, 'test.db')
        db = common.connect(path, extension)
        db.execute(f'PRAGMA journal_mode = {mode}')
        db.execute(f'CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, '
                   f'e FLOAT[3] {"index=" + index if index else ""}, '
                   f'v INTEGER, g INTEGER, +note)')
        for group in (1, 2):
            replace_group(db, group, 0)
        processes = [spawn(kind, path, extension, number, seconds, index)
                     for kind in ('--writer', '--reader') for number in (1, 2)]
        outputs = [process.communicate()[0].strip() for process in processes]
        for output, who in zip(outputs, ('writer 1', 'writer 2', 'reader 1', 'reader 2')):
            tally.check(output.isdigit() and int(output) > 0, f'{mode}, {who}: {output}')
        versions = dict(db.execute('SELECT g, max(v) FROM t GROUP BY g').fetchall())
        tally.check([str(versions.get(g)) for g in (1, 2)] == outputs[:2],
                    f'{mode}: the last versions are {versions}, the writers said {outputs[:2]}')
        fault = common.integrity_fault(db)
        tally.check(fault is None, f'{mode}: {fault}')
        print(f'{mode}: {outputs[0]} and {outputs[1]} transactions, '
              f'{outputs[2]} and {outputs[3]} snapshots')
        db.close()
        shutil.rmtree(directory, ignore_errors=True)
    tally.finish()


if __name__ == '__main__':
    if sys.argv[1] in ('--writer', '--reader'):
        role = writer if sys.argv[1] == '--writer' else reader
        role(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), sys.argv[6])
    else:
        main()
