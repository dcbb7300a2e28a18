"""Random queries of every form, each with the rows that must come back.

A query's answer is found on the mirror: Python puts the distance of every row into a table
d(id, distance), and SQLite filters and sorts. `ordered` says that rows must come in that order.
"""
import json
import math
import struct

import drivers
import predicates
import vectors


class Query:
    def __init__(self, sql, parameters, expected, ordered=True):
        self.sql, self.parameters, self.expected, self.ordered = sql, parameters, expected, ordered

    def expected_for(self, got):
        return [tuple(row) for row in self.expected]

    def may_be_refused(self, message):
        """SQLite does not tell a table which of its later terms are IN, or need another table."""
        if drivers.refuses_old_host(message, self.sql):
            return True
        return 'IN must be among the first 32 terms' in message and self.sql.count(' AND ') > 31


class SomeOf(Query):
    """As many rows as there are up to k, in the order of `truth`; any of them."""

    def __init__(self, sql, parameters, truth, k):
        super().__init__(sql, parameters, truth[:k])
        self.truth, self.k = [tuple(row) for row in truth], k

    def expected_for(self, got):
        places = {row: i for i, row in enumerate(self.truth)}
        found = sorted({places[row] for row in got if row in places})
        if len(found) == min(self.k, len(places)):
            return [self.truth[i] for i in found]
        return super().expected_for(got)


class Questioner:
    def __init__(self, rng, table, mirror):
        self.rng, self.table, self.mirror = rng, table, mirror
        rows = self.mirror.execute('SELECT min(id), max(id) FROM t')[0]
        self.low, self.high = (rows[0] - 2, rows[1] + 2) if rows[0] is not None else (0, 3)

    def random_query(self):
        forms = (self.knn, self.knn, self.knn, self.limited, self.limited, self.limited, self.stream,
                 self.descending, self.counted, self.scanned, self.outer, self.joined, self.joined,
                 self.joined_with_k, self.left_known, self.correlated, self.correlated_scalar,
                 self.search_function, self.range_function, self.join_function, self.array_function)
        if self.table.learning:
            forms += (self.hashed,) * 4
        return self.rng.choice(forms)()

    # --- the mirror's side ---------------------------------------------------

    def choose_query(self, columns=None):
        """A vector column and a query for it; the distances go to the mirror."""
        self.column = self.rng.choice(columns or self.table.vectors)
        self.blob = self.random_query_blob()
        self.input = vectors.as_input(self.rng, self.column.kind, self.blob)
        self.measure(self.blob)

    def random_query_blob(self):
        column = self.column
        if self.rng.random() < 0.3:  # a stored one: distance 0, and ties
            rows = self.mirror.execute(f'SELECT {column.name} FROM t WHERE {column.name} IS NOT NULL '
                                       f'ORDER BY id LIMIT 1 OFFSET {self.rng.randint(0, 20)}')
            if rows:
                return rows[0][0]
        return vectors.random_blob(self.rng, column.kind, column.dim)

    def measure(self, blob):
        column = self.column
        query = vectors.decode(column.kind, blob)
        rows = self.mirror.execute(
            f'SELECT id, {column.name} FROM t WHERE {column.name} IS NOT NULL')
        self.mirror.execute('DELETE FROM d')
        self.distances = [
            (row[0], vectors.distance(column.distance, query, vectors.decode(column.kind, row[1])))
            for row in rows]
        self.mirror.executemany('INSERT INTO d VALUES (?, ?)', self.distances)

    def nearest(self, where, tail='', what='t.id, distance'):
        where = ' AND '.join(where) or '1'
        return self.mirror.execute(f'SELECT {what} FROM t JOIN d ON d.did = t.id WHERE {where} '
                                   f'ORDER BY distance, t.id {tail}')

    # --- pieces --------------------------------------------------------------

    def filters(self, most=3):
        return predicates.random_filters(self.rng, self.table, self.low, self.high, most)

    def late_filters(self, with_k=False):
        if self.rng.random() < 0.6:
            return []
        return [predicates.applied_by_sqlite(self.rng, self.table, with_k)]

    def bounds(self):
        rng = self.rng
        if rng.random() < 0.7 or not self.distances:
            return []
        pick = lambda: repr(rng.choice(self.distances)[1] * rng.choice((1.0, 1.0, 0.99)))
        return rng.choice(([f'distance <= {pick()}'], [f'distance < {pick()}'],
                           [f'distance >= {pick()}'], [f'distance > {pick()}'],
                           [f'distance > {pick()}', f'distance < {pick()}'],
                           [f'distance BETWEEN {pick()} AND {pick()}']))

    def random_k(self):
        return self.rng.choice((0, 1, 2, 3, 5, 10, 10, 50, 1000, 100000))

    def shuffled(self, terms):
        terms = list(terms)
        self.rng.shuffle(terms)
        return ' AND '.join(terms)

    def match(self, alias=''):
        return f'{alias}{self.column.name} MATCH ?'

    def plain_of_integers(self):
        names = [c.name for c in self.table.plains if c.type == 'INTEGER']
        return self.rng.choice(names) if names else None

    # --- the forms -----------------------------------------------------------

    def knn(self):
        self.choose_query()
        early, late, k = self.filters() + self.bounds(), self.late_filters(True), self.random_k()
        where = self.shuffled([self.match(), f'k = {k}'] + early + late)
        order = self.rng.choice(('', '', ' ORDER BY distance'))
        expected = self.nearest(early, f'LIMIT {k}')
        if late:
            kept = {row[0] for row in self.nearest(late)}
            expected = [row for row in expected if row[0] in kept]
        return Query(f'SELECT id, distance FROM t WHERE {where}{order}', (self.input,), expected)

    def limited(self):
        self.choose_query()
        terms = self.filters() + self.bounds() + self.late_filters()
        limit = f'LIMIT {self.random_k()}'
        if self.rng.random() < 0.4:
            limit += f' OFFSET {self.rng.choice((0, 1, 3, 20, 300))}'
        where = self.shuffled([self.match()] + terms)
        return Query(f'SELECT id, distance FROM t WHERE {where} ORDER BY distance {limit}',
                     (self.input,), self.nearest(terms, limit))

    def stream(self):
        self.choose_query()
        terms = self.filters() + self.bounds() + self.late_filters()
        columns = ', '.join(['id', 'distance'] + [c.name for c in self.table.columns])
        what = columns.replace('id', 't.id', 1)
        where = self.shuffled([self.match()] + terms)
        return Query(f'SELECT {columns} FROM t WHERE {where}', (self.input,),
                     self.nearest(terms, what=what))

    def descending(self):
        self.choose_query()
        terms = self.filters() + self.late_filters()
        where = self.shuffled([self.match()] + terms)
        limit = f'LIMIT {self.random_k()}'
        expected = self.mirror.execute(
            f'SELECT t.id, distance FROM t JOIN d ON d.did = t.id WHERE '
            f'{" AND ".join(terms) or 1} ORDER BY distance DESC, t.id {limit}')
        return Query(f'SELECT id, distance FROM t WHERE {where} ORDER BY distance DESC, id {limit}',
                     (self.input,), expected)

    def counted(self):
        self.choose_query()
        terms = self.filters() + self.bounds() + self.late_filters()
        where = self.shuffled([self.match()] + terms)
        expected = self.mirror.execute(
            f'SELECT count(*), max(distance), sum(t.id % 7) FROM t JOIN d ON d.did = t.id '
            f'WHERE {" AND ".join(terms) or 1}')
        return Query(f'SELECT count(*), max(distance), sum(id % 7) FROM t WHERE {where}',
                     (self.input,), expected)

    def scanned(self):
        terms = self.filters() + self.late_filters()
        where = ' AND '.join(terms) or '1'
        order = self.rng.choice(('ORDER BY id', 'ORDER BY id DESC LIMIT 7'))
        sql = f'SELECT id, {self.table.names} FROM t WHERE {where} {order}'
        return Query(sql, (), self.mirror.execute(sql))

    def outer(self):
        """Rows of o stay, whatever is asked of t."""
        column = self.rng.choice(self.table.plains).name
        on = self.filters(1) + [predicates.escaped_term(self.rng, column)]
        if self.rng.random() < 0.5:
            on += [self.rng.choice(('t.id = o.ref', 't.id > o.ref', predicates.pattern_term(self.rng, column)))]
        sql = f'SELECT o.onum, t.id FROM o LEFT JOIN t ON {self.shuffled(on)}'
        return Query(sql, (), self.mirror.execute(sql), ordered=False)

    def left_open(self):
        """Something that is read row by row."""
        return self.rng.choice((self.stream, self.stream, self.limited, self.knn, self.scanned_in_order))()

    def scanned_in_order(self):
        where = ' AND '.join(self.filters() + self.late_filters()) or '1'
        sql = f'SELECT id, {self.table.names} FROM t WHERE {where} ORDER BY id'
        return Query(sql, (), self.mirror.execute(sql))

    def joined(self):
        """Without k: everything filters, in any FROM order, CROSS too."""
        self.choose_query()
        terms = self.filters(2) + self.late_filters()
        on = self.rng.choice(('o.ref = t.id', 't.id = o.ref AND o.tag > 3', 'o.ref = t.id + 1'))
        source = self.rng.choice((f't JOIN o ON {on}', f'o JOIN t ON {on}', f't CROSS JOIN o ON {on}',
                                  f'o CROSS JOIN t ON {on}'))
        where = self.shuffled([self.match('t.')] + terms)
        k = self.random_k()
        sql = (f'SELECT t.id, t.distance, o.onum FROM {source} WHERE {where} '
               f'ORDER BY t.distance, t.id, o.onum LIMIT {k}')
        expected = self.mirror.execute(
            f'SELECT t.id, distance, o.onum FROM t JOIN d ON d.did = t.id JOIN o ON {on} '
            f'WHERE {" AND ".join(terms) or 1} ORDER BY distance, t.id, o.onum LIMIT {k}')
        return Query(sql, (self.input,), expected)

    def joined_with_k(self):
        """The search stands alone; the other table joins what it gave."""
        self.choose_query()
        early, k = self.filters(2) + self.bounds(), self.random_k()
        on = self.rng.choice(('o.ref = t.id', 'o.ref = t.id AND o.tag > 3', 'o.ref > t.id'))
        joins = [f't JOIN o ON {on}', f'o JOIN t ON {on}', f't CROSS JOIN o ON {on}',
                 f't LEFT JOIN o ON {on}']
        source = self.rng.choice(joins)
        kind = 'LEFT JOIN' if 'LEFT' in source else 'JOIN'
        where = self.shuffled([self.match('t.'), f't.k = {k}'] + early)
        hits = self.nearest(early, f'LIMIT {k}')
        self.mirror.execute('DELETE FROM hits')
        self.mirror.executemany('INSERT INTO hits VALUES (?, ?)', hits)
        expected = self.mirror.execute(
            f'SELECT t.id, t.distance, o.onum FROM hits t {kind} o ON {on}')
        return Query(f'SELECT t.id, t.distance, o.onum FROM {source} WHERE {where}', (self.input,),
                     expected, ordered=False)

    def left_known(self):
        """What stands left of a LEFT or CROSS JOIN is known: its terms filter before k."""
        self.choose_query()
        early, k = self.filters(1), self.random_k()
        integers = self.plain_of_integers()
        on = 't.id >= o.ref' if integers is None else self.rng.choice(
            ('t.id = o.ref', f't.{integers} = o.tag', f't.{integers} <> o.tag'))
        left = self.rng.random() < 0.5
        terms = self.shuffled([self.match('t.'), f't.k = {k}', on] + early)
        source = f'o LEFT JOIN t ON {terms}' if left else f'o CROSS JOIN t WHERE {terms}'
        expected = []
        for onum, ref, tag in self.mirror.execute('SELECT onum, ref, tag FROM o'):
            known = on.replace('o.ref', predicates.literal(ref)).replace(
                'o.tag', predicates.literal(tag))
            hits = self.nearest(early + [known], f'LIMIT {k}')
            expected += [(onum,) + tuple(hit) for hit in hits] or ([(onum, None, None)] if left else [])
        return Query(f'SELECT o.onum, t.id, t.distance FROM {source}', (self.input,), expected,
                     ordered=False)

    def queries(self):
        """Rows of q for the chosen column, in both databases; yields (qid, blob, limit)."""
        self.column = self.rng.choice(self.table.vectors)
        rows = [(i, self.random_query_blob(), self.rng.randint(1, 5)) for i in range(1, 4)]
        rows.append((4, None, 2))
        return rows

    def correlated(self):
        rows, early = self.queries(), self.filters(2)
        k = self.rng.choice(('q.n', '2', '7'))
        term = self.rng.choice((None, 't.id > q.n', 't.id <> q.n'))
        on = [f't.{self.column.name} MATCH q.v', f't.k = {k}'] + early + ([term] if term else [])
        expected = []
        for qid, blob, n in rows:
            if blob is None:
                continue
            self.measure(blob)
            known = [term.replace('q.n', str(n))] if term else []
            hits = self.nearest(early + known, f'LIMIT {n if k == "q.n" else k}')
            expected += [(qid,) + tuple(hit) for hit in hits]
        values = ', '.join('(?, ?, ?)' for _ in rows)
        source = self.rng.choice(('q JOIN t', 't JOIN q', 'q CROSS JOIN t'))
        return Query(f'WITH q(qid, v, n) AS {drivers.MATERIALIZED} (VALUES {values}) '
                     f'SELECT qid, t.id, t.distance FROM {source} ON {self.shuffled(on)}',
                     [cell for row in rows for cell in row], expected, ordered=False)

    def correlated_scalar(self):
        rows, terms = self.queries(), self.filters(2) + self.late_filters()
        expected = []
        for qid, blob, _ in rows:
            hit = None
            if blob is not None:
                self.measure(blob)
                hit = next(iter(self.nearest(terms, 'LIMIT 1')), (None,))[0]
            expected.append((qid, hit))
        values = ', '.join('(?, ?, ?)' for _ in rows)
        where = self.shuffled([f't.{self.column.name} MATCH q.v'] + terms)
        return Query(f'WITH q(qid, v, n) AS (VALUES {values}) SELECT qid, (SELECT t.id FROM t '
                     f'WHERE {where} ORDER BY t.distance LIMIT 1) FROM q ORDER BY qid',
                     [cell for row in rows for cell in row], expected)

    def search_function(self):
        self.choose_query()
        k = self.random_k()
        hits = self.nearest([], f'LIMIT {k}')
        return Query('SELECT rowid, distance, rank FROM warp_knn_search(?, ?, ?, ?)',
                     ('t', self.column.name, self.input, k),
                     [tuple(hit) + (i + 1,) for i, hit in enumerate(hits)])

    def hashed(self):
        """By few candidates, or by all."""
        self.choose_query(self.table.learning)
        k, refine = self.random_k(), self.rng.choice((0, 1, 1, 2, 8))
        return SomeOf('SELECT rowid, distance FROM warp_knn_search(?, ?, ?, ?, ?)',
                      ('t', self.column.name, self.input, k, f'{{"refine":{refine}}}'),
                      self.nearest([]), k)

    def range_function(self):
        self.choose_query()
        radius = self.rng.choice(self.distances)[1] if self.distances else 1.0
        return Query('SELECT rowid, distance FROM warp_range_search(?, ?, ?, ?)',
                     ('t', self.column.name, self.input, radius),
                     self.nearest([f'distance <= {radius!r}']), ordered=False)

    def filter_option(self):
        """Terms of any kind as an expression, and the options that have it."""
        terms = self.filters() + self.late_filters()
        return terms, json.dumps({'filter': self.shuffled(terms)}) if terms else None

    def join_function(self):
        self.column = self.rng.choice(self.table.vectors)
        terms, options = self.filter_option()
        k, name = self.rng.choice((1, 3, 10, 100)), self.column.name
        expected = []
        for rowid, blob in self.mirror.execute(
                f'SELECT id, {name} FROM t WHERE {name} IS NOT NULL ORDER BY id LIMIT 8'):
            self.measure(blob)
            expected += [(rowid,) + tuple(hit) + (i + 1,)
                         for i, hit in enumerate(self.nearest(terms, f'LIMIT {k}'))]
        return Query('SELECT query_id, rowid, distance, rank FROM warp_knn_join(?, ?, ?, ?, ?)',
                     ('t', name, f'SELECT id, {name} FROM t WHERE {name} IS NOT NULL '
                      f'ORDER BY id LIMIT 8', k, options), expected, ordered=False)

    def array_function(self):
        """Every query has k places; those that no row takes are -1 and NaN."""
        self.column = self.rng.choice(self.table.vectors)
        terms, options = self.filter_option()
        k = self.rng.choice((0, 1, 3, 10, 100))
        blobs = [self.random_query_blob() for _ in range(self.rng.choice((0, 1, 2, 5)))]
        hits = []
        for blob in blobs:
            self.measure(blob)
            found = [tuple(hit) for hit in self.nearest(terms, f'LIMIT {k}')]
            hits += found + [(-1, math.nan)] * (k - len(found))
        return Query('SELECT queries, k, rowids, distances FROM warp_knn_arrays(?, ?, ?, ?, ?)',
                     ('t', self.column.name, vectors.matrix(self.column.kind, blobs), k, options),
                     [(len(blobs), k, struct.pack(f'{len(hits)}q', *(hit[0] for hit in hits)),
                       struct.pack(f'{len(hits)}d', *(hit[1] for hit in hits)))])
