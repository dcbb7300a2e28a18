#!/usr/bin/env python3
"""Old SQLite libraries load the extension, and give the rows that this machine's own gives.

usage: old_hosts.py path/to/warplite.so FOLDER
       old_hosts.py path/to/warplite.so --converse

The libraries are real ones: wheels of pyproj have always held one. They are kept in FOLDER and stand in
for the interpreter's. Where they cannot be had, the test says so and ends with 77: skipped.
"""
import glob
import os
import platform
import sqlite3
import struct
import subprocess
import sys

import wheels

WHEELS = {'3.31.1': 'pyproj==2.6.1', '3.32.3': 'pyproj==3.0.1', '3.35.5': 'pyproj==3.1.0'}
ORACLES = (('oracle.py', '1', '200'), ('text_oracle.py', '1'),
           ('key_oracle.py', '1', '40'), ('schema_oracle.py', '1', '20'),
           ('content_oracle.py', '2', '200'))
HERE = os.path.dirname(os.path.abspath(__file__))

SET_UP = '''
CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[2], c TEXT, y INTEGER, r REAL, w TEXT index=words, +note);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO t SELECT i, '[' || i || ',' || (i % 7) || ']', substr('abc', i % 3 + 1, 1), i % 11, i / 4.0, 'word' || (i % 5), i
FROM n;
CREATE TABLE o(onum INTEGER, ref INTEGER);
INSERT INTO o VALUES (1, 5), (2, 6), (3, 300);
CREATE VIEW chosen AS SELECT id FROM t WHERE e MATCH '[5,5]' AND c IN ('a', 'b') AND k = 5;
CREATE VIEW joined AS SELECT id, o.onum FROM o JOIN t ON t.id = o.ref WHERE e MATCH '[5,5]' AND k = 3;
'''
# Each statement's rows are compared; an error is a row, too.
STATEMENTS = (
    "SELECT id, distance FROM t WHERE e MATCH '[5,5]' AND k = 4",
    "SELECT id, distance FROM t WHERE e MATCH '[5,5]' ORDER BY distance LIMIT 4 OFFSET 90",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND c = 'a' AND y BETWEEN 2 AND 9 AND r > 1.5 AND k = 5",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND c IN ('a', 'b') ORDER BY distance LIMIT 5",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND id IN (SELECT ref FROM o) ORDER BY distance LIMIT 2",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND (y = 3 OR y = 4) ORDER BY distance LIMIT 5",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND r LIKE '2%' AND c GLOB '[ab]' AND k = 5",
    "SELECT count(*), max(distance) FROM t WHERE e MATCH '[5,5]' AND distance <= 12.5",
    "SELECT count(*), sum(id) FROM t WHERE y IN (1, 2) AND c <> 'a' AND r < 100",
    "SELECT id, matches FROM t WHERE w MATCH 'word3 and word4' AND k = 3",
    "SELECT id, o.onum FROM t JOIN o ON o.ref = t.id WHERE e MATCH '[5,5]' ORDER BY distance LIMIT 2",
    "SELECT id, o.onum FROM t JOIN o ON o.ref = +t.id WHERE e MATCH '[5,5]' AND k = 3",
    "SELECT id, o.onum FROM t JOIN o ON o.ref = t.id WHERE e MATCH '[5,5]' AND y < 9 AND k = 3",
    "SELECT id, o.onum FROM t LEFT JOIN o ON o.ref = t.id WHERE e MATCH '[5,5]' AND k = 3",
    'SELECT * FROM joined',
    "SELECT onum, id FROM o LEFT JOIN t ON t.id = o.ref AND e MATCH '[5,5]' AND k = 1",
    "SELECT rowid, distance, rank FROM warp_knn_search('t', 'e', '[9,9]', 3)",
    "SELECT query_id, rowid FROM warp_knn_join('t', 'e', 'SELECT id, e FROM t WHERE id < 4', 2)",
    "SELECT queries, k, hex(rowids), hex(distances) FROM warp_knn_arrays('t', 'e', zeroblob(16), 2)",
    "SELECT query_id, rowid FROM warp_knn_join('t', 'e', 'SELECT id, e FROM t WHERE id < 4', 2, "
    """'{"filter":"c = ''a'' AND y % 2 AND id IN (SELECT id FROM t WHERE r > 1.5)"}')""",
    """SELECT count(*) FROM warp_knn_join('t', 'e', 'VALUES (1, NULL)', 2, '{"filter":"1) OR (1"}')""",
    'BEGIN', "UPDATE t SET y = 100 WHERE id = 7", 'DELETE FROM t WHERE id BETWEEN 10 AND 20',
    'SAVEPOINT s', "INSERT INTO t(id, e) VALUES (1000, '[5,5]')",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND k = 2", 'ROLLBACK TO s',
    "SELECT id FROM t WHERE e MATCH '[12,5]' AND k = 3", 'COMMIT',
    "INSERT OR REPLACE INTO t(id, e, note) VALUES (3, '[5,5]', 'new')",
    "INSERT INTO t(id, e) VALUES (3, '[0,0]')", "INSERT INTO t(id, e) VALUES (2000, '[1]')",
    "INSERT INTO t(t) VALUES ('optimize')", "INSERT INTO t(t) VALUES ('integrity-check')",
    "SELECT id, c, y, r, note FROM t WHERE e MATCH '[5,5]' AND k = 12",
    'CREATE VIRTUAL TABLE v USING vec0(e float[2])', "INSERT INTO v(rowid, e) VALUES (1, '[1,2]'), (2, '[5,5]')",
    "SELECT rowid, distance FROM v WHERE e MATCH '[4,4]' AND k = 1", 'DROP TABLE v',
    'ALTER TABLE t RENAME TO u', 'SELECT count(*), sum(id) FROM u', 'DROP TABLE u',
    'SELECT count(*) FROM sqlite_master',
)
# With k, these say before 3.38 that they cannot be answered, and how they can be.
REFUSED = (
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND c IN ('a', 'b') AND k = 5",
    "SELECT id FROM t WHERE e MATCH '[5,5]' AND (c = 'a' OR c = 'b') AND k = 5",
    'SELECT * FROM chosen',
)


def answer(db, sql):
    try:
        return db.execute(sql).fetchall()
    except sqlite3.Error as error:
        return [('error', str(error))]


def converse(extension):
    db = sqlite3.connect(':memory:', isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    print(sqlite3.sqlite_version)
    db.executescript(SET_UP)
    for sql in REFUSED:
        said = answer(db, sql)[0]
        told = said[0] != 'error' if sqlite3.sqlite_version_info >= (3, 38) else 'leave k out' in said[1]
        print('as it should be' if told else said)
    for sql in STATEMENTS:
        print(sql, answer(db, sql), sep='\n  ')


def fetch(version, folder):
    """The folder of the library, or None."""
    here = os.path.join(folder, version)
    found = wheels.fetch(WHEELS[version], here, ('libsqlite3-', 'libz-'), '--python-version', '37',
                         '--platform', 'manylinux2010_x86_64')
    return here if found else None


def run(command, here=None):
    environment = dict(os.environ)
    if here:
        library = glob.glob(os.path.join(here, 'libsqlite3-*'))[0]
        environment['LD_LIBRARY_PATH'] = here
        environment['LD_PRELOAD'] = ' '.join(filter(None, (environment.get('LD_PRELOAD'), library)))
    done = subprocess.run([sys.executable] + command, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def check(extension, version, here):
    """What differs from this machine's own library, as text; empty if nothing does."""
    conversation = [os.path.abspath(__file__), extension, '--converse']
    status, said = run(conversation, here)
    got, expected = said.splitlines(), run(conversation)[1].splitlines()
    if status != 0 or got[:1] != [version]:
        return f'expected SQLite {version} to go through the conversation, got\n{said}'
    for i, (a, b) in enumerate(zip(got[1:], expected[1:])):
        if a != b:
            return f'{got[i]}\n  {version}: {a}\n  {expected[0]}: {b}'
    if len(got) != len(expected):
        return said
    for oracle in ORACLES:
        status, said = run([os.path.join(HERE, '..', 'oracle', oracle[0]), extension, *oracle[1:]], here)
        if status != 0:
            return f'{" ".join(oracle)}\n{said}'
    return ''


def main():
    extension = os.path.abspath(sys.argv[1])
    if sys.argv[2] == '--converse':
        return converse(extension)
    if platform.system() != 'Linux' or platform.machine() != 'x86_64':
        print('skipped: the old libraries are for Linux on x86-64')
        return wheels.SKIPPED
    folders = {version: fetch(version, os.path.abspath(sys.argv[2])) for version in WHEELS}
    if None in folders.values():
        print('skipped: the old libraries cannot be had, as where there is no pip or no network')
        return wheels.SKIPPED
    failures = [text for version, here in folders.items() if (text := check(extension, version, here))]
    print('\n'.join(failures) or f'{", ".join(WHEELS)}: the same rows')
    return 1 if failures else 0


sys.exit(main())
