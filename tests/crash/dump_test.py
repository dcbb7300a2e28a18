#!/usr/bin/env python3
"""The shell's .dump, read into a new file by a shell without the extension, answers the same.

usage: dump_test.py path/to/warplite.so
"""
import os
import shutil
import subprocess
import sys
import tempfile

import common

QUESTIONS = (
    'SELECT id, e, a, s, note FROM t ORDER BY id',
    "SELECT id, distance, note FROM t WHERE e MATCH '[3,4]' AND k = 50",
    "SELECT id FROM t WHERE e MATCH '[3,4]' AND a = 2 AND s LIKE 's1%' ORDER BY distance LIMIT 9",
    "SELECT word, distance FROM w WHERE e MATCH x'55' AND k = 5",
    "SELECT word, n FROM w WHERE word = 'w17'",
)


def build(path, extension):
    db = common.connect(path, extension)
    db.execute('CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[2], a INTEGER, '
               's TEXT, +note)')
    db.execute('CREATE VIRTUAL TABLE w USING warp(word TEXT PRIMARY KEY, e BIT[8], +n)')
    db.execute('BEGIN')
    for i in range(1, 3000):
        db.execute('INSERT INTO t VALUES (?, ?, ?, ?, ?)',
                   (i * 2, common.vector(i % 31, i % 17), i % 5 or None, f's{i}', f"it's {i}\n"))
        db.execute('INSERT INTO w VALUES (?, ?, ?)', (f'w{i}', bytes([i % 256]), i))
    db.execute('DELETE FROM t WHERE id % 6 = 0')
    db.execute("DELETE FROM w WHERE word LIKE '%9'")
    db.execute('COMMIT')
    db.execute("INSERT INTO t VALUES (1, '[3,4]', 2, 's1x', x'00ff')")
    return db


def answers(db):
    return [db.execute(question).fetchall() for question in QUESTIONS]


def main():
    shell = shutil.which('sqlite3')
    if shell is None:
        print('no sqlite3 shell here: nothing to test\n0 passed, 0 failed')
        return
    extension, tally = common.extension_path(), common.Tally()
    directory = tempfile.mkdtemp(prefix='warplite-dump-')
    path, copy = os.path.join(directory, 'test.db'), os.path.join(directory, 'copy.db')
    expected = answers(build(path, extension))
    dump = subprocess.run([shell, path, f".load '{extension}'", '.dump'], stdout=subprocess.PIPE)
    tally.check(dump.returncode == 0 and b'USING warp' in dump.stdout, '.dump failed')
    restore = subprocess.run([shell, copy], input=dump.stdout, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    tally.check(restore.returncode == 0, f'the restore failed: {restore.stdout.decode()}')
    db = common.connect(copy, extension)
    for question, before, after in zip(QUESTIONS, expected, answers(db)):
        tally.check(before == after and before, f'{question}: {len(after)} rows, {len(before)} expected')
    for table in ('t', 'w'):
        tally.check(common.integrity_fault(db, table) is None, str(common.integrity_fault(db, table)))
    db.execute("INSERT INTO t VALUES (3, '[3,4]', 2, 's', NULL)")
    rows = db.execute("SELECT id FROM t WHERE e MATCH '[3,4]' AND id < 10 AND k = 2").fetchall()
    tally.check(rows == [(1,), (3,)], f'a restored table cannot be written: {rows}')
    db.close()
    shutil.rmtree(directory, ignore_errors=True)
    tally.finish()


if __name__ == '__main__':
    main()
