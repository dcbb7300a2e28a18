#!/usr/bin/env python3
"""Random statements as programs for sqlite-vec write them, run by sqlite-vec and by Warplite: the same rows.

usage: vec0_mirror.py path/to/warplite.so FOLDER [SEED [ROUNDS]]

sqlite-vec comes from its wheel, which FOLDER keeps; where it cannot be had, the test says so and ends with 77. Both
then know the same tables by the module vec0. What docs/sqlite_vec.md lists as different is not asked. In the end
Warplite converts the file that sqlite-vec wrote, and must have its rows.
"""
import json
import math
import os
import random
import sys
import tempfile

import wheels
from connection import answer, connect

SCHEMAS = (
    'e float[4], chunk_size=8',
    'id integer primary key, e float[4] distance_metric=cosine, n integer, +t text, chunk_size=8',
    'e float[4] distance_metric=l1, p integer partition key, s text, r float, b boolean, chunk_size=8',
    'e int8[4], n integer, +t text, chunk_size=16',
    'e bit[16], s text, chunk_size=8',
    'key text primary key, e float[4], n integer, chunk_size=8',
)


class Table:
    """Statements over one schema."""

    def __init__(self, schema, dice):
        self.dice = dice
        self.columns = [c.split()[:2] for c in schema.split(', ') if not c.startswith('chunk_size')]
        self.create = f'CREATE VIRTUAL TABLE v USING vec0({schema})'
        kinds = {name: kind for name, kind in self.columns}
        self.text_key = 'key' in kinds
        self.key = 'key' if self.text_key else 'id' if 'id' in kinds else 'rowid'
        self.element = kinds['e'].split('[')[0]
        self.deleted = False

    def vector(self):
        if self.element == 'bit':
            return "vec_bit(x'%04x')" % self.dice.randrange(65536)
        numbers = [self.dice.randrange(-9, 10) for _ in range(4)]
        if self.element == 'int8':
            return f"vec_int8('{json.dumps(numbers)}')"
        return f"'{json.dumps([n + self.dice.choice((0, 0.5, 0.25)) for n in numbers])}'"

    def value(self, name):
        dice = self.dice
        if name == 'e':
            return self.vector()
        if name in ('s', 't'):
            return "'" + dice.choice(('a', 'b', 'long text of many words', 'é')) + "'"
        if name in ('key', 'id', 'rowid'):
            return f"'k{dice.randrange(60)}'" if self.text_key else str(dice.randrange(1, 60))
        if name == 'b':
            return str(dice.randrange(2))
        return str(dice.randrange(-3, 9)) if name in ('n', 'p') else str(dice.randrange(-8, 9) / 4)

    def filter(self):
        names = [name for name, _ in self.columns if name in ('n', 's', 'p', 'r', 'b')]
        if not names or self.dice.random() < 0.4:
            return ''
        name = self.dice.choice(names)
        operators = ('=', '!=') if name == 'b' else ('=',) if name == 'p' else ('=', '!=', '<', '<=', '>', '>=')
        return f' AND {name} {self.dice.choice(operators)} {self.value(name)}'

    def statement(self):
        dice, key = self.dice, self.key
        kind = dice.choice(('insert',) * 5 + ('update', 'delete', 'point', 'scan', 'columns') + ('search',) * 4)
        names = [name for name, _ in self.columns if name != key]
        if kind == 'insert':
            # sqlite-vec never gives a rowid again; Warplite does as ordinary tables do.
            named = [key] + names if self.text_key or self.deleted or dice.random() < 0.5 else names
            return f'INSERT INTO v({", ".join(named)}) VALUES ({", ".join(map(self.value, named))})'
        if kind == 'update':
            name = dice.choice([n for n in names if n != 'p' and (n, self.element) != ('e', 'bit')])
            return f'UPDATE v SET {name} = {self.value(name)} WHERE {key} = {self.value(key)}'
        if kind == 'delete':
            self.deleted = True
            return f'DELETE FROM v WHERE {key} = {self.value(key)}'
        if kind == 'point':
            return f'SELECT * FROM v WHERE {key} = {self.value(key)}'
        if kind == 'columns':
            return "SELECT name, hidden FROM pragma_table_xinfo('v') WHERE NOT hidden"
        if kind == 'scan':
            return f'SELECT * FROM v ORDER BY {key}'
        limit = f'AND k = {dice.randrange(1, 30)}' + dice.choice(('', ' ORDER BY distance'))
        where = f'e MATCH {self.vector()}{self.filter()}'
        return f'SELECT distance, {key} FROM v WHERE {where} {limit}'


def same(sql, theirs, ours):
    if isinstance(theirs, str) or isinstance(ours, str):
        return isinstance(theirs, str) == isinstance(ours, str)
    if 'MATCH' not in sql:
        return theirs == ours
    # Distances within float32's reach; where rows have the same distance, any of them.
    distances = [[row[0] for row in rows] for rows in (theirs, ours)]
    close = len(theirs) == len(ours) and all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5) for a, b in zip(*distances))
    last = distances[0][-1] - 1e-4 if theirs else 0
    inside = [{row[1] for row in rows if row[0] < last} for rows in (theirs, ours)]
    return close and inside[0] == inside[1]


def run(theirs_path, ours_path, schema, seed):
    dice = random.Random(seed)
    table = Table(schema, dice)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'theirs.db')
        theirs, ours = connect([theirs_path], path), connect([ours_path])
        for sql in [table.create] + [table.statement() for _ in range(150)]:
            expected, got = answer(theirs, sql), answer(ours, sql)
            if not same(sql, expected, got):
                return f'seed {seed}: {schema}\n  {sql}\n  sqlite-vec {expected}\n  warplite   {got}'
        everything = f'SELECT * FROM v ORDER BY {table.key}'
        expected = answer(theirs, everything)
        theirs.close()
        converted = connect([ours_path], path)
        refused = answer(converted, everything)
        count = answer(converted, "SELECT warp_import_vec0('v', 'v')")
        got = answer(converted, everything)
        if 'warp_import_vec0' not in str(refused) or count != [(len(expected),)] or got != expected:
            return f'seed {seed}: {schema}\n  converted {count}\n  expected {expected}\n  got {got}'
    return None


def main():
    ours = os.path.abspath(sys.argv[1])
    theirs = wheels.fetch('sqlite-vec==0.1.9', os.path.abspath(sys.argv[2]), ['vec0.'])
    if not theirs:
        print('skipped: sqlite-vec cannot be had, as where there is no pip or no network')
        return wheels.SKIPPED
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    outcomes = [run(theirs[0], ours, schema, seed * 1000 + r) for r in range(rounds) for schema in SCHEMAS]
    failures = [failure for failure in outcomes if failure]
    for failure in failures[:5]:
        print(failure)
    print(f'{len(outcomes) - len(failures)} passed, {len(failures)} failed')
    return 1 if failures else 0


sys.exit(main())
