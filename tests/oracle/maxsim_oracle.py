#!/usr/bin/env python3
"""Random late interactions over a random table, against brute force in Python.

usage: maxsim_oracle.py path/to/warplite.so [seed [steps]]

Documents are named by a column of each plain type; rows come and go, some without a vector or a
document. Scores are compared to the last bit: sums are in the order of the query's vectors.
"""
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'crash'))
import common  # noqa: E402
import vectors  # noqa: E402

COLUMNS = {'v0': ('FLOAT', 3, 'ip'), 'v1': ('FLOAT16', 17, 'cosine'), 'v2': ('FLOAT', 40, 'l2'),
           'v3': ('INT8', 5, 'ip'), 'v4': ('BIT', 16, 'hamming'), 'v5': ('FLOAT', 4, 'l1'),
           'v6': ('FLOAT', 8, 'l2')}
INDEXES = {'v6': ' index=ivfflat(lists=2)', 'v1': ' index=ivfrabitq(lists=2)'}
NAMES = {'name': 'TEXT', 'number': 'INTEGER', 'part': 'REAL', 'tenant': 'TEXT PARTITION KEY'}
FILTERS = ('year > 3', "note = 'x'", 'id % 3 = 0', 'NULL', 'name IS NULL OR number > 2')


class Oracle:
    def __init__(self, db, seed, tally):
        self.db, self.random, self.tally = db, random.Random(seed), tally
        self.rows, self.committed, self.next = {}, {}, 1
        columns = [f'{name} {kind}[{dim}] distance={distance}{INDEXES.get(name, "")}'
                   for name, (kind, dim, distance) in COLUMNS.items()]
        columns += [f'{name} {declared}' for name, declared in NAMES.items()]
        db.execute(f'CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, {", ".join(columns)}, '
                   'year INTEGER, +note)')
        db.execute('CREATE TABLE mirror(id INTEGER PRIMARY KEY, name TEXT, number INTEGER, '
                   'year INTEGER, note)')

    def maybe(self, value):
        return None if self.random.random() < 0.1 else value

    def insert(self):
        rng = self.random
        row = {name: self.maybe(vectors.random_blob(rng, kind, dim))
               for name, (kind, dim, _) in COLUMNS.items()}
        row |= {'name': self.maybe(rng.choice('abcdefgÅé') * rng.randint(0, 2)),
                'number': self.maybe(rng.choice((rng.randint(-4, 4), 2**53 + rng.randint(0, 2)))),
                'part': self.maybe(rng.choice((0.0, -0.0, 0.5, -1.5, 1e300, 7.0))),
                'tenant': self.maybe(rng.choice(('one', 'two', 'three'))),
                'year': rng.randrange(9), 'note': rng.choice('xy')}
        rowid, self.next = self.next, self.next + 1
        self.rows[rowid] = row
        self.db.execute(f'INSERT INTO t(id, {", ".join(row)}) VALUES (?{", ?" * len(row)})',
                        (rowid, *row.values()))
        self.db.execute('INSERT INTO mirror VALUES (?, ?, ?, ?, ?)', (
            rowid, row['name'], row['number'], row['year'], row['note']))

    def step(self):
        rng, action = self.random, self.random.random()
        if action < 0.6 or not self.rows:
            for _ in range(rng.choice((1, 1, 5, 90))):
                self.insert()
        elif action < 0.75:
            rowid = rng.choice(list(self.rows))
            del self.rows[rowid]
            self.db.execute('DELETE FROM t WHERE id = ?', (rowid,))
            self.db.execute('DELETE FROM mirror WHERE id = ?', (rowid,))
        elif action < 0.82:
            common.rewrite(self.db, rng.choice(('optimize', 'train')), self.rows.values(), INDEXES)
        elif not self.db.in_transaction:
            self.db.execute('BEGIN')
            self.committed = dict(self.rows)
        elif rng.random() < 0.5:
            self.db.execute('COMMIT')
        else:
            self.db.execute('ROLLBACK')
            self.rows = self.committed

    def distances(self, column, query, passing):
        """(distance, rowid) of the rows that pass and have a vector."""
        kind, _, distance = COLUMNS[column]
        decoded = vectors.decode(kind, query)
        return [(vectors.distance(distance, decoded, vectors.decode(kind, self.rows[rowid][column])),
                 rowid) for rowid in passing if self.rows[rowid][column] is not None]

    def ranked(self, column, group, queries, passing, options):
        scores, chosen = {}, options.get('documents')
        lists = [self.distances(column, query, passing) for query in queries]
        if chosen is None and 'candidates' in options:
            chosen = [self.rows[rowid][group] for found in lists
                      for _, rowid in sorted(found)[:options['candidates']]]
        for found in lists:
            nearest = {}
            for distance, rowid in found:
                name = self.rows[rowid][group]
                if name is not None and (chosen is None or name in chosen):
                    nearest[name] = min(distance, nearest.get(name, distance))
            for name, distance in nearest.items():
                similarity = (1 if COLUMNS[column][2] == 'cosine' else 0) - distance
                scores[name] = scores.get(name, 0) + similarity
        return sorted(scores.items(), key=lambda item: (-item[1], self.order(item[0])))

    @staticmethod
    def order(name):
        return name.encode() if isinstance(name, str) else name

    def options(self, group):
        rng, options = self.random, {'exact': 1}
        if rng.random() < 0.4:
            options['filter'] = rng.choice(FILTERS)
        if rng.random() < 0.3:
            options['candidates'] = rng.choice((1, 3, 1000))
        if rng.random() < 0.3:
            known = [row[group] for row in self.rows.values() if row[group] is not None]
            known.append('nobody' if NAMES[group].startswith('TEXT') else 12345)
            options['documents'] = rng.choices(known, k=rng.randint(0, 4))
        return options

    def check(self):
        rng = self.random
        column, group = rng.choice(list(COLUMNS)), rng.choice(list(NAMES))
        kind, dim, _ = COLUMNS[column]
        queries = [vectors.random_blob(rng, kind, dim) for _ in range(rng.choice((1, 2, 5, 33)))]
        options, k = self.options(group), rng.choice((0, 1, 3, 100))
        passing = [row[0] for row in self.db.execute(
            f'SELECT id FROM mirror WHERE {options.get("filter", "1")}')]
        want = [(name, score, rank) for rank, (name, score) in
                enumerate(self.ranked(column, group, queries, passing, options)[:k], 1)]
        given = b''.join(queries)
        if kind == 'FLOAT' and rng.random() < 0.3:
            given = json.dumps([vectors.decode(kind, query) for query in queries])
        got = self.db.execute("SELECT * FROM warp_maxsim_search('t', ?, ?, ?, ?, ?)",
                              (column, group, given, k, json.dumps(options))).fetchall()
        self.tally.check(got == want, f'{column} by {group}, {len(queries)} queries, k = {k}, '
                                      f'{options}: {got} is not {want}')


if __name__ == '__main__':
    common.run_oracle(Oracle, steps=60, checks=4)
