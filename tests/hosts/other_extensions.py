#!/usr/bin/env python3
"""Other extensions in one connection: whichever is loaded first, each gives what it gives alone.

usage: other_extensions.py path/to/warplite.so FOLDER

sqlite-vec comes from its wheel, which FOLDER keeps; where it cannot be had, the test says so and ends with 77.
SpatiaLite takes part where it is installed, FTS5 where SQLite has it.
"""
import itertools
import os
import sqlite3
import sys

import wheels
from connection import answer, connect

# Statements of each, with the same rows in every order. Distances of sqlite-vec's are float32's.
OURS = (
    'CREATE VIRTUAL TABLE w USING warp(id INTEGER PRIMARY KEY, e FLOAT[2], h FLOAT16[2], t TEXT index=words)',
    "INSERT INTO w VALUES (1, '[1,2]', '[1,2]', 'one two'), (2, vec_f32('[5,5]'), vec_f16('[5,5]'), 'two'), (3, NULL, NULL, '')",
    "SELECT id, distance FROM w WHERE e MATCH vec_f32('[1,1]') AND k = 2",
    "SELECT id, distance FROM w WHERE h MATCH vec_f16('[1,1]') ORDER BY distance LIMIT 2",
    "SELECT id, matches FROM w WHERE t MATCH 'two' AND k = 2",
    "SELECT rowid, rank FROM warp_knn_search('w', 'e', vec_f32('[6,6]'), 2)",
    'SELECT warp_version() IS NOT NULL', "SELECT rowid, value FROM vec_each('[1,2]')",
    "SELECT vec_length(vec_f32('[1,2]')), vec_type(vec_int8('[1,2]')), vec_to_json(vec_slice('[1,2,3]', 0, 2))",
    "SELECT hex(vec_add('[1,2]', '[3,4]')), hex(vec_quantize_binary('[1,-1,1,1,1,1,1,1]')), vec_distance_l2('[0,0]', '[3,4]')",
)
THEIRS = (
    'CREATE VIRTUAL TABLE v USING vec0(id INTEGER PRIMARY KEY, e FLOAT[2])',
    "INSERT INTO v VALUES (1, '[1,2]'), (2, vec_f32('[5,5]'))",
    "SELECT id, distance FROM v WHERE e MATCH vec_f32('[1,1]') AND k = 2", 'SELECT vec_version()',
)
TEXTS = ("CREATE VIRTUAL TABLE f USING fts5(t)", "INSERT INTO f VALUES ('one two'), ('three')",
         "SELECT rowid, t FROM f WHERE f MATCH 'two'", "SELECT highlight(f, 0, '<', '>') FROM f WHERE t MATCH 'three'")
PLACES = ('SELECT AsText(MakePoint(1, 2)), Distance(MakePoint(0, 0), MakePoint(3, 4))',)
# What sqlite-vec's functions, loaded last, do not know they must refuse; ours know it.
MARKED = ("SELECT vec_length(vec_f16('[1,2]'))", "SELECT vec_distance_l2(vec_bf16('[1,2]'), vec_bf16('[1,3]'))",
          "SELECT vec_to_json(vec_f16('[1,2]'))")


def answers(db, statements):
    return [(sql, answer(db, sql)) for sql in statements]


def differences(order, db, parts):
    for statements, alone in parts:
        for (sql, got), (_, expected) in zip(answers(db, statements), alone):
            if got != expected:
                yield f'{order}: {sql}\n  expected {expected}\n  got      {got}'
    for sql in MARKED:
        got, known = answer(db, sql), answer(db, 'SELECT vec_type(vec_f16(\'[1]\'))') == [('float16',)]
        if (known and isinstance(got, str)) or (not known and 'Unknown subtype' not in got):
            yield f'{order}: {sql}\n  expected an answer, or a refusal where sqlite-vec came last\n  got {got}'


def conversion(order, db):
    """A table of sqlite-vec's is converted in place, under the module warp, since vec0 is sqlite-vec's."""
    for sql in THEIRS[:2]:
        db.execute(sql)
    counted, got = answer(db, "SELECT warp_import_vec0('v', 'v')"), answer(db, "SELECT id FROM v WHERE e MATCH '[1,1]' AND k = 1")
    modules = answer(db, "SELECT sql LIKE '%warp%' FROM sqlite_master WHERE name = 'v'")
    if (counted, got, modules) != ([(2,)], [(1,)], [(1,)]):
        yield f'{order}: converted in place\n  got {counted}, {got}, {modules}'


def main():
    ours = os.path.abspath(sys.argv[1])
    theirs = wheels.fetch('sqlite-vec', os.path.abspath(sys.argv[2]), ['vec0.'])
    if not theirs:
        print('skipped: sqlite-vec cannot be had, as where there is no pip or no network')
        return wheels.SKIPPED
    extensions = {'warplite': (ours, OURS), 'sqlite-vec': (theirs[0], THEIRS)}
    try:
        connect(['mod_spatialite'])
        extensions['spatialite'] = ('mod_spatialite', PLACES)
    except sqlite3.Error:
        print('without SpatiaLite, which is not installed here')
    parts = [(statements, answers(connect([path]), statements)) for path, statements in extensions.values()]
    if not isinstance(answer(connect([]), TEXTS[0]), str):
        parts.append((TEXTS, answers(connect([]), TEXTS)))

    failures = []
    orders = list(itertools.permutations(extensions))
    for order in orders:
        failures += differences(order, connect([extensions[name][0] for name in order]), parts)
        if {'warplite', 'sqlite-vec'} <= set(order):
            failures += conversion(order, connect([extensions[name][0] for name in order]))
    # SELECT load_extension() replaces no function: those that were there first stay, and work.
    order = ['sqlite-vec', 'warplite']
    failures += differences('by SQL', connect([extensions[name][0] for name in order], by_sql=True), parts[:2])
    print('\n'.join(failures))
    print(f'{len(orders) + 1 if not failures else 0} passed, {len(failures)} failed')
    return 1 if failures else 0


sys.exit(main())
