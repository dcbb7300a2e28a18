#!/usr/bin/env python3
"""Random hybrid searches of a random table, against brute force in Python.

usage: hybrid_oracle.py path/to/warplite.so [seed [steps]]

Each source's list is made here, of every row that passes the filter: distances of vectors, edit
distances, words in common, products of sparse vectors; of FTS5 by its own ranking. The lists are
fused here, too.
"""
import json
import math
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'crash'))
import common  # noqa: E402
import text_oracle  # noqa: E402
import vectors  # noqa: E402

WORDS = ('red', 'blue', 'old', 'new', 'dog', 'fish', 'cat', 'sea', 'Über', 'a', 'b')
VECTORS = {'flat': ('l2', 3), 'listed': ('cosine', 4), 'inner': ('ip', 2)}
FILTERS = ('year > 3', 'year IS NULL OR year % 2 = 0', "note = 'x'", 'id < 40', 'NULL', '1',
           "id IN (SELECT rowid FROM texts WHERE body LIKE '%dog%')", "words LIKE '%red%'")


class Oracle:
    def __init__(self, db, seed, tally):
        self.db, self.random, self.tally = db, random.Random(seed), tally
        self.rows, self.committed, self.next = {}, {}, 1
        db.execute('CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, flat FLOAT[3], '
                   'listed FLOAT[4] distance=cosine index=ivfflat(lists=2), '
                   'inner FLOAT[2] distance=ip, words TEXT index=words, '
                   'name TEXT index=ngram(n=2), plain TEXT distance=edit, sparse SPARSE[40], '
                   'year INTEGER, +note)')
        db.execute('CREATE VIRTUAL TABLE texts USING fts5(body, title)')
        db.execute('CREATE TABLE mirror(id INTEGER PRIMARY KEY, words TEXT, year INTEGER, note)')

    def phrase(self, most=5):
        return ' '.join(self.random.choice(WORDS) for _ in range(self.random.randint(0, most)))

    def terms(self, most):
        """A sparse vector as JSON; products of its values and their sums are exact."""
        chosen = self.random.sample(range(40), self.random.randint(0, most))
        return json.dumps([(index, self.random.choice((1, 2, 0.5, 0.25, 3, 0, -1.5))) for index in chosen])

    def maybe(self, value):
        return None if self.random.random() < 0.1 else value

    def new_row(self):
        row = {name: self.maybe(vectors.random_blob(self.random, 'FLOAT', dim))
               for name, (_, dim) in VECTORS.items()}
        row |= {name: self.maybe(self.phrase()) for name in ('words', 'name', 'plain')}
        row['sparse'] = self.maybe(self.terms(6))
        return row | {'year': self.maybe(self.random.randrange(9)), 'note': self.random.choice('xy')}

    def insert(self):
        rowid, row = self.next, self.new_row()
        self.next += 1
        self.rows[rowid] = row
        names = ', '.join(row)
        self.db.execute(f'INSERT INTO t(id, {names}) VALUES (?{", ?" * len(row)})',
                        (rowid, *row.values()))
        self.db.execute('INSERT INTO mirror VALUES (?, ?, ?, ?)',
                        (rowid, row['words'], row['year'], row['note']))
        if self.random.random() < 0.9:  # some rows have no text, some texts no row
            self.insert_text(rowid)
        elif self.random.random() < 0.5:
            self.insert_text(rowid + 1000000)

    def insert_text(self, rowid):
        self.db.execute('INSERT INTO texts(rowid, body, title) VALUES (?, ?, ?)',
                        (rowid, self.phrase(8), self.phrase(2)))

    def delete(self, rowid):
        del self.rows[rowid]
        self.db.execute('DELETE FROM t WHERE id = ?', (rowid,))
        self.db.execute('DELETE FROM mirror WHERE id = ?', (rowid,))
        if self.random.random() < 0.5:
            self.db.execute('DELETE FROM texts WHERE rowid = ?', (rowid,))

    def step(self):
        rng, action = self.random, self.random.random()
        if action < 0.6 or not self.rows:
            for _ in range(rng.choice((1, 1, 1, 60))):
                self.insert()
        elif action < 0.75:
            self.delete(rng.choice(list(self.rows)))
        elif action < 0.8:
            common.rewrite(self.db, rng.choice(('optimize', 'train')), self.rows.values(), ['listed'])
        elif not self.db.in_transaction:
            self.db.execute('BEGIN')
            self.committed = dict(self.rows)
        elif rng.random() < 0.5:
            self.db.execute('COMMIT')
        else:
            self.db.execute('ROLLBACK')
            self.rows = self.committed

    # Lists of (distance, rowid), in order.

    def vector_list(self, name, passing):
        distance, dim = VECTORS[name]
        blob = vectors.random_blob(self.random, 'FLOAT', dim)
        query = vectors.decode('FLOAT', blob)
        return blob, sorted(
            (vectors.distance(distance, query, vectors.decode('FLOAT', self.rows[rowid][name])), rowid)
            for rowid in passing if self.rows[rowid][name] is not None)

    def text_list(self, name, passing):
        query = self.phrase(3)
        texts = [(rowid, self.rows[rowid][name]) for rowid in passing
                 if self.rows[rowid][name] is not None]
        if name == 'words':
            mine = text_oracle.words(query, 'none')
            counts = sorted((-len(mine & text_oracle.words(text, 'none')), rowid)
                            for rowid, text in texts)
            return query, [(float(count), rowid) for count, rowid in counts if count]
        return query, sorted((float(text_oracle.edit_distance(query, text)), rowid)
                             for rowid, text in texts)

    def sparse_list(self, passing):
        """Rows whose product with the query is above 0."""
        query = self.terms(4)
        mine, found = dict(json.loads(query)), []
        for rowid in passing:
            if (value := self.rows[rowid]['sparse']) is not None:
                found.append((-sum(mine.get(index, 0) * x for index, x in json.loads(value)), rowid))
        return query, sorted((float(distance), rowid) for distance, rowid in found if distance < 0)

    def match_list(self, passing):
        query = ' OR '.join(self.random.sample(WORDS, self.random.randint(1, 3)))
        query = self.random.choice((query, f'title : ({query})', f'"{query}"'))
        found = self.db.execute('SELECT rank, rowid FROM texts WHERE texts MATCH ?', (query,))
        return query, sorted(row for row in found if row[1] in passing)

    def any_list(self, passing):
        """(source, query, list); some queries are NULL."""
        source = self.random.choice((*VECTORS, 'words', 'name', 'plain', 'sparse', 'texts', 'texts',
                                     'main.texts'))
        if source in VECTORS:
            query, found = self.vector_list(source, passing)
        elif source == 'sparse':
            query, found = self.sparse_list(passing)
        elif 'texts' in source:
            query, found = self.match_list(passing)
        else:
            query, found = self.text_list(source, passing)
        return (source, None, []) if self.random.random() < 0.1 else (source, query, found)

    def options(self, count):
        rng, options = self.random, {}
        options['exact'] = 1
        if rng.random() < 0.5:
            options['filter'] = rng.choice(FILTERS)
        if rng.random() < 0.5:
            options['weights'] = [rng.choice((1, 0, 0.5, 2, 0.3, 1e-3)) for _ in range(count)]
        if rng.random() < 0.5:
            options['depth'] = rng.choice((1, 3, 10, 500))
        if rng.random() < 0.6:
            options['fusion'] = rng.choice(('linear', 'linear', 'rrf'))
        return options

    def fused(self, lists, options, k):
        depth = options.get('depth', max(k, 100))
        weights = options.get('weights', [1] * len(lists))
        terms, ranks = {}, {}
        for number, found in enumerate(lists):
            found = found[:depth]
            for rank, (distance, rowid) in enumerate(found, 1):
                best, worst = found[0][0], found[-1][0]
                if options.get('fusion') != 'linear':
                    term = weights[number] / (60 + rank)
                elif best == worst:
                    term = weights[number]
                else:
                    term = weights[number] * ((worst - distance) / (worst - best))
                terms.setdefault(rowid, []).append(term)
                ranks.setdefault(rowid, [None] * len(lists))[number] = rank
        rows = sorted((-math.fsum(terms[rowid]), rowid) for rowid in terms)
        return [(rowid, -score, place, ranks[rowid])
                for place, (score, rowid) in enumerate(rows[:k], 1)]

    def check(self):
        count, k = self.random.choice((1, 2, 2, 3, 3, 8)), self.random.choice((0, 1, 5, 20, 200))
        options = self.options(count)
        passing = {row[0] for row in self.db.execute(
            f'SELECT id FROM mirror WHERE {options.get("filter", "1")}')}
        sources = [self.any_list(passing) for _ in range(count)]
        if count == 8:  # no place for a NULL after sixteen arguments
            sources[7] = ('words', *self.text_list('words', passing))
        arguments = ['t', k]
        for source, query, _ in sources:
            arguments += [source, query]
        arguments.append(json.dumps(options))
        sql = f'SELECT * FROM warp_hybrid_search(?{", ?" * (len(arguments) - 1)})'
        got = [(*row[:3], json.loads(row[3])) for row in self.db.execute(sql, arguments)]
        want = self.fused([found for *_, found in sources], options, k)
        self.tally.check(got == want, f'{arguments}: {got} is not {want}')
        if 'fusion' not in options:
            self.check_aggregate(got, options.get('weights', [1] * count))

    def check_aggregate(self, rows, weights):
        """warp_rrf says the same of the ranks, in any order."""
        for rowid, score, _, ranks in rows:
            pairs = list(zip(ranks, weights))
            self.random.shuffle(pairs)
            values = ', '.join('(?, ?)' for _ in pairs)
            got = self.db.execute(f'SELECT warp_rrf(column1, column2) FROM (VALUES {values})',
                                  [value for pair in pairs for value in pair]).fetchone()[0]
            self.tally.check(got == score, f'row {rowid}: warp_rrf of {pairs} is {got}, not {score}')


if __name__ == '__main__':
    common.run_oracle(Oracle, steps=120, checks=3)
