#!/usr/bin/env python3
"""Imports random tables that sqlite-vec wrote, and compares every cell with what vec0 shows.

usage: compare_vec0_import.py path/to/warplite.so [tables]   (needs the sqlite-vec package; not part of CI)
"""
import os
import random
import sqlite3
import sys
import tempfile

import sqlite_vec

import vectors

TEXTS = ('', 'a', 'twelve bytes', 'thirteen byte', 'åßç', 'x' * 100, 'long é' * 9)
VALUES = {'integer': (0, 5, -7, 2**62, -2**63), 'float': (0.0, -1.5, 1e300), 'boolean': (0, 1), 'text': TEXTS}
VECTORS = {'float': ('FLOAT', '?'), 'int8': ('INT8', 'vec_int8(?)'), 'bit': ('BIT', 'vec_bit(?)')}


class Column:
    def __init__(self, name, kind, role='', dim=0):
        self.name, self.kind, self.role, self.dim = name, kind, role, dim

    def declaration(self):
        if self.dim:
            return f'{self.name} {self.kind}[{self.dim}]'
        return ('+' if self.role == 'aux' else '') + f'{self.name} {self.kind}' + \
            (' partition key' if self.role == 'partition' else '')

    def value(self, rng):
        if self.dim:
            return vectors.encode(VECTORS[self.kind][0],
                                  vectors.random_values(rng, VECTORS[self.kind][0], self.dim))
        if self.role == 'partition':
            return rng.choice((1, 2, 3) if self.kind == 'integer' else ('a', 'b'))
        if self.role == 'aux' and rng.random() < 0.3:
            return None
        return b'\0\1' if self.kind == 'blob' else rng.choice(VALUES[self.kind])

    def mark(self):
        return VECTORS[self.kind][1] if self.dim else '?'


def random_columns(rng):
    columns = [Column('e', 'float', dim=rng.choice((1, 3, 16)))]
    columns += [c for c in (Column('q', 'int8', dim=rng.choice((1, 8))), Column('b', 'bit', dim=16),
                            Column('n', 'integer'), Column('r', 'float'), Column('o', 'boolean'),
                            Column('s', 'text'), Column('t', 'text'),
                            Column('p', 'integer', 'partition'), Column('u', 'text', 'partition'),
                            Column('a', 'text', 'aux'), Column('c', 'blob', 'aux'),
                            Column('d', 'integer', 'aux')) if rng.random() < 0.6]
    rng.shuffle(columns)
    return columns


def write(db, rng):
    """Makes docs with some rows inserted, deleted and updated; returns the columns that are shown."""
    columns = random_columns(rng)
    key = rng.choice((None, Column('id', 'integer'), Column('word', 'text')))
    declarations = [c.declaration() for c in columns] + [f'chunk_size={rng.choice((8, 16, 64))}']
    if key:
        declarations.insert(rng.randrange(len(columns)), f'{key.name} {key.kind} primary key')
    db.execute(f'CREATE VIRTUAL TABLE docs USING vec0({", ".join(declarations)})')
    name = key.name if key else 'rowid'
    names = ', '.join([name] + [c.name for c in columns])
    marks = ', '.join(['?'] + [c.mark() for c in columns])
    keys = [f'k{i}' if key and key.kind == 'text' else 3 * i - 20 for i in range(rng.choice((0, 5, 200)))]
    for value in keys:
        db.execute(f'INSERT INTO docs({names}) VALUES ({marks})', [value] + [c.value(rng) for c in columns])
    for value in keys:
        column = rng.choice(columns)
        if rng.random() < 0.3:
            db.execute(f'DELETE FROM docs WHERE {name} = ?', (value,))
        elif rng.random() < 0.2 and column.role != 'partition' and column.mark() == '?':
            db.execute(f'UPDATE docs SET {column.name} = {column.mark()} WHERE {name} = ?',
                       (column.value(rng), value))
    return names


def connect(path, extension):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def main():
    extension = os.path.splitext(os.path.abspath(sys.argv[1]))[0]
    passed = failed = 0
    for seed in range(int(sys.argv[2]) if len(sys.argv) > 2 else 100):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, 'docs.db')
            theirs = connect(path, sqlite_vec.loadable_path())
            names = write(theirs, random.Random(seed))
            expected = theirs.execute(f'SELECT {names} FROM docs ORDER BY 1').fetchall()
            sql = theirs.execute("SELECT sql FROM sqlite_master WHERE name = 'docs'").fetchone()[0]
            theirs.close()
            ours = connect(path, extension)
            count = ours.execute("SELECT warp_import_vec0('docs')").fetchone()[0]
            got = ours.execute(f'SELECT {names} FROM docs_warp ORDER BY 1').fetchall()
            ours.execute("INSERT INTO docs_warp(docs_warp) VALUES ('integrity-check')")
            ours.close()
            if got == expected and count == len(expected):
                passed += 1
            else:
                failed += 1
                print(f'seed {seed}: {sql}\n  {count} rows, expected {len(expected)}')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
