#!/usr/bin/env python3
"""Replays statements written for vec0 tables on both modules, with only the module's name changed.

usage: compare_vec0.py path/to/warplite.so     (needs the sqlite-vec package; not part of CI)

Rows must be equal; distances to 1e-5 of their size, because vec0 computes in float32. Each case
runs on fresh databases. What vec0 refuses and warp answers is counted, not compared.
"""
import math
import os
import random
import sqlite3
import sys

import sqlite_vec

import vectors


def connect(path):
    db = sqlite3.connect(':memory:', isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(path)
    return db


def same(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5)
    return a == b


def same_rows(left, right):
    return len(left) == len(right) and all(
        len(x) == len(y) and all(map(same, x, y)) for x, y in zip(left, right))


def run(db, statements, module):
    """The rows of each statement, or its error."""
    results = []
    for statement in statements:
        sql, parameters = statement if isinstance(statement, tuple) else (statement, ())
        try:
            results.append(db.execute(sql.replace('MODULE', module), parameters).fetchall())
        except sqlite3.Error as error:
            results.append(f'error: {error}')
    return results


def f32(*values):
    return vectors.encode('FLOAT', values)


def filled(rng, declaration, insert, rows, dim=8):
    """CREATE, and rows whose vector is the last value."""
    statements = [f'CREATE VIRTUAL TABLE t USING MODULE({declaration})']
    for i in range(1, rows + 1):
        statements.append((insert, make_row(i) + (f32(*[rng.gauss(0, 1) for _ in range(dim)]),)))
    return statements


def make_row(i):
    return (i, ('drama', 'comedy', 'horror')[i % 3], 1990 + i % 20, i % 10 / 2.0, i % 2)


METADATA = ('id integer primary key, genre text, year integer, rating float, open boolean, '
            'e float[8]')
INSERT = 'INSERT INTO t(id, genre, year, rating, open, e) VALUES (?, ?, ?, ?, ?, ?)'


def metadata_case(rng):
    q = f32(*[rng.gauss(0, 1) for _ in range(8)])
    where = ('', 'AND year = 1995', 'AND year != 1995', 'AND year > 2000', 'AND year <= 1992',
             "AND genre = 'drama'", "AND genre != 'drama'", "AND genre > 'd'", 'AND rating < 2.5',
             'AND rating >= 1.5 AND rating <= 3.0', 'AND open = true', 'AND open = 0',
             "AND genre IN ('drama', 'horror')", 'AND year IN (1991, 1993, 2050)',
             'AND year BETWEEN 1993 AND 1998', "AND genre = 'comedy' AND year > 1995 AND open = 1",
             'AND id IN (1, 5, 9, 100, 1000)', 'AND rowid IN (SELECT id FROM t WHERE year = 1999)')
    return filled(rng, METADATA, INSERT, 150) + [
        (f'SELECT id, distance, genre, year, rating, open FROM t WHERE e MATCH ? AND k = 7 {term} '
         'ORDER BY distance', (q,)) for term in where]


def limit_case(rng):
    q = f32(*[rng.gauss(0, 1) for _ in range(8)])
    return filled(rng, METADATA, INSERT, 60) + [
        ('SELECT id, distance FROM t WHERE e MATCH ? ORDER BY distance LIMIT 5', (q,)),
        ('SELECT rowid FROM t WHERE e MATCH ? ORDER BY distance LIMIT 1', (q,)),
        ('SELECT rowid FROM t WHERE e MATCH ? LIMIT 3', (q,)),
        ('WITH n AS (SELECT rowid, distance FROM t WHERE e MATCH ? AND k = 4) SELECT t.genre, '
         'n.distance FROM n LEFT JOIN t ON t.id = n.rowid ORDER BY n.distance', (q,))]


def point_case(rng):
    return filled(rng, METADATA, INSERT, 40) + [
        'SELECT id, genre, year, rating, open, e FROM t WHERE id = 7', 'SELECT count(*) FROM t',
        'SELECT * FROM t WHERE rowid = 3', 'SELECT * FROM t WHERE id = 4000', 'SELECT id FROM t',
        "UPDATE t SET genre = 'changed', year = 7 WHERE id = 7",
        ('UPDATE t SET e = ? WHERE id = 8', (f32(*[9.0] * 8),)),
        'DELETE FROM t WHERE id = 9', 'DELETE FROM t WHERE id = 4000',
        'SELECT id, genre, year, rating, open, e FROM t ORDER BY id',
        ('SELECT id, distance FROM t WHERE e MATCH ? AND k = 5', (f32(*[9.0] * 8),)),
        ('INSERT INTO t(id, genre, year, rating, open, e) VALUES (9, \'again\', 1, 1.5, 1, ?)',
         (f32(*[8.0] * 8),)),
        ('SELECT id, genre FROM t WHERE e MATCH ? AND k = 2', (f32(*[9.0] * 8),))]


def partition_case(rng):
    q = f32(*[rng.gauss(0, 1) for _ in range(8)])
    statements = ['CREATE VIRTUAL TABLE t USING MODULE(id integer primary key, user_id integer '
                  'partition key, kind text partition key, e float[8], +contents text)']
    for i in range(1, 80):
        statements.append(('INSERT INTO t(id, user_id, kind, e, contents) VALUES (?, ?, ?, ?, ?)',
                           (i, i % 5, 'ab'[i % 2], f32(*[rng.gauss(0, 1) for _ in range(8)]), f'c{i}')))
    where = ('', 'AND user_id = 3', "AND user_id = 3 AND kind = 'a'", "AND kind = 'b'", 'AND user_id = 99')
    return statements + [
        (f'SELECT id, user_id, kind, contents, distance FROM t WHERE e MATCH ? AND k = 4 {term}', (q,))
        for term in where] + ["UPDATE t SET contents = 'new' WHERE id = 5",
                              'SELECT contents FROM t WHERE id = 5', 'DELETE FROM t WHERE user_id = 2',
                              'SELECT count(*) FROM t']


def distances_case(rng):
    statements = []
    for metric in ('l2', 'l1', 'cosine'):
        statements.append(f'CREATE VIRTUAL TABLE t_{metric} USING MODULE(e float[8] distance_metric={metric})')
        for i in range(1, 30):
            blob = f32(*[rng.gauss(0, 1) for _ in range(8)])
            statements.append((f'INSERT INTO t_{metric}(rowid, e) VALUES (?, ?)', (i, blob)))
        q = f32(*[rng.gauss(0, 1) for _ in range(8)])
        statements.append((f'SELECT rowid, distance FROM t_{metric} WHERE e MATCH ? AND k = 30', (q,)))
    return statements


def types_case(rng):
    return ['CREATE VIRTUAL TABLE t USING MODULE(i int8[4], b bit[8], f float[3])',
            "INSERT INTO t(rowid, i, b, f) VALUES (1, vec_int8('[1,2,3,4]'), vec_bit(x'0f'), '[1,2,3]')",
            "INSERT INTO t(rowid, i, b, f) VALUES (2, vec_int8('[-1,2,-3,4]'), vec_bit(x'ff'), '[0,2,3]')",
            "SELECT rowid, distance FROM t WHERE i MATCH vec_int8('[1,2,3,5]') AND k = 2",
            "SELECT rowid, distance FROM t WHERE b MATCH vec_bit(x'f0') AND k = 2",
            "SELECT rowid, distance FROM t WHERE f MATCH '[0,0,0]' AND k = 2",
            'SELECT rowid, i, b, f FROM t']


def text_key_case(rng):
    return ['CREATE VIRTUAL TABLE t USING MODULE(name text primary key, e float[2])',
            "INSERT INTO t(name, e) VALUES ('a', '[1,1]'), ('b', '[2,2]'), ('c', '[3,3]')",
            "SELECT name, distance FROM t WHERE e MATCH '[0,0]' AND k = 2",
            "SELECT name, e FROM t WHERE name = 'b'", "UPDATE t SET e = '[0,0]' WHERE name = 'c'",
            "SELECT name FROM t WHERE e MATCH '[0,0]' AND k = 1", "DELETE FROM t WHERE name = 'a'",
            'SELECT name FROM t ORDER BY name']


def functions_case(rng):
    a, b = ([round(rng.gauss(0, 1), 3) for _ in range(8)] for _ in range(2))
    return [('SELECT vec_to_json(?), vec_length(?), vec_type(?)', (f32(*a),) * 3),
            ('SELECT vec_distance_l2(?, ?), vec_distance_l1(?, ?), vec_distance_cosine(?, ?)',
             (f32(*a), f32(*b)) * 3),
            ('SELECT vec_add(?, ?), vec_sub(?, ?)', (f32(*a), f32(*b)) * 2),
            ('SELECT vec_to_json(vec_normalize(?))', (f32(*a),)), ('SELECT vec_slice(?, 2, 5)', (f32(*a),)),
            ('SELECT vec_quantize_binary(?)', (f32(*a),)),
            ('SELECT vec_to_json(vec_quantize_int8(vec_normalize(?), \'unit\'))', (f32(*a),)),
            "SELECT vec_to_json(vec_int8('[1,-2,3]')), vec_to_json(vec_bit(x'0f'))",
            "SELECT vec_distance_l2(vec_int8('[1,2]'), vec_int8('[4,6]')), "
            "vec_distance_l1(vec_int8('[1,2]'), vec_int8('[4,6]'))",
            "SELECT vec_distance_hamming(vec_bit(x'ff'), vec_bit(x'0f'))",
            "SELECT vec_to_json(vec_add(vec_int8('[1,2]'), vec_int8('[3,4]')))",
            "SELECT vec_f32('[1,2,3]'), vec_type(vec_f32('[1]')), vec_type(vec_int8('[1]')), vec_type(vec_bit(x'01'))",
            "SELECT vec_to_json('[1,2.5,-3]')", "SELECT vec_length('[1,2]')",
            "SELECT vec_slice('[1,2,3]', 2, 1)", "SELECT vec_f32('1,2')", "SELECT vec_f32('')", "SELECT vec_f32(x'00')",
            "SELECT vec_slice(vec_bit(x'ffff'), 0, 8)", "SELECT vec_add('[1]', '[1,2]')", "SELECT vec_f32(NULL)",
            "SELECT vec_length(NULL)", "SELECT vec_distance_l2(NULL, '[1]')", "SELECT vec_to_json(NULL)",
            "SELECT vec_quantize_int8('[0.5,-1,2]', 'unit')", "SELECT vec_f32(1.5)"]


CASES = (metadata_case, limit_case, point_case, partition_case, distances_case, types_case,
         text_key_case, functions_case)


def main():
    extension = os.path.splitext(os.path.abspath(sys.argv[1]))[0]
    passed = failed = refused = 0
    for case in CASES:
        statements = case(random.Random(7))
        theirs = run(connect(sqlite_vec.loadable_path()), statements, 'vec0')
        ours = run(connect(extension), statements, 'warp')
        for statement, left, right in zip(statements, theirs, ours):
            if isinstance(left, str):
                passed += isinstance(right, str)
                refused += not isinstance(right, str)
            elif not isinstance(right, str) and same_rows(left, right):
                passed += 1
            else:
                failed += 1
                shown = statement[0] if isinstance(statement, tuple) else statement
                print(f'{case.__name__}: {shown}\n  vec0 {str(left)[:300]}\n  warp {str(right)[:300]}')
    print(f'{refused} statements that only warp answers')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
