"""Random questions to the index, answered by brute force over the content table itself."""
import json

import predicates
import vectors
from content_tables import canonical, named
from predicates import literal
from text_oracle import edit_distance, words


class Question:
    def __init__(self, sql, parameters, expected, ordered=True):
        self.sql, self.parameters, self.ordered = sql, parameters, ordered
        self.expected = [tuple(row) for row in expected]


class Questioner:
    """Asks one connection about what that connection sees."""

    def __init__(self, rng, table, connection):
        self.rng, self.table, self.connection = rng, table, connection
        names = [c.name for c in table.columns]
        rows = connection.execute(named(connection, f'SELECT rowid, {", ".join(names)} FROM {{c}} '
                                                    'ORDER BY rowid'))
        self.rows = {row[0]: dict(zip(names, row[1:])) for row in rows}
        for column in table.vectors:
            for row in self.rows.values():
                row[column.name] = canonical(column, row[column.name])
        self.low = min(self.rows, default=0) - 2
        self.high = max(self.rows, default=3) + 2

    def draw(self):
        forms = [self.knn, self.knn, self.limited, self.ranged, self.streamed, self.scanned,
                 self.looked_up, self.counted, self.knn_function, self.range_function, self.knn_join,
                 self.joined, self.match_counts, self.matched_items, self.graph]
        if self.table.text.search:
            forms += [self.texts, self.texts, self.text_function]
        question = self.rng.choice(forms)()
        question.sql = named(self.connection, question.sql)
        return question

    # --- the truth -----------------------------------------------------------

    def choose(self, indexed=True):
        """A vector column, a query for it, and the rows in order: [(rowid, distance)]."""
        self.column = self.rng.choice(self.table.vectors)
        present = [row[self.column.name] for row in self.rows.values()
                   if row[self.column.name] is not None]
        if present and self.rng.random() < 0.3:  # distance 0, and ties
            blob = self.rng.choice(present)
        else:
            blob = vectors.random_blob(self.rng, self.column.kind, self.column.dim)
        self.input = vectors.as_input(self.rng, self.column.kind, blob)
        return self.nearest(blob)

    def nearest(self, blob):
        kind, name = self.column.kind, self.column.name
        query = vectors.decode(kind, blob)
        distances = [(vectors.distance(self.column.distance, query, vectors.decode(kind, row[name])),
                      rowid) for rowid, row in self.rows.items() if row[name] is not None]
        return [(rowid, distance) for distance, rowid in sorted(distances)]

    def filters(self, most=2):
        """Terms for the index, and the rowids that pass them."""
        terms = []
        for _ in range(self.rng.choice((0, 0, 1, most))):
            if self.rng.random() < 0.3:
                terms.append(self.on_rowid())
            else:
                terms.append(predicates.on_plain(self.rng, self.rng.choice(self.table.plains)))
        return terms, self.passing(terms)

    def on_rowid(self):
        a, b = sorted(self.rng.randint(self.low, self.high) for _ in range(2))
        return self.rng.choice((f'rowid >= {a}', f'rowid < {b}', f'rowid BETWEEN {a} AND {b}',
                                f'rowid = {a}', f'rowid IN ({a}, {b})',
                                f'rowid IN (SELECT rowid FROM {{c}} WHERE rowid % 3 = {a % 3})'))

    def late(self):
        """What SQLite applies itself."""
        column = self.rng.choice(self.table.plains)
        if self.rng.random() < 0.6:
            return []
        value = predicates.random_literal(self.rng, column)
        return [self.rng.choice((f'rowid % 3 = 1', f'NOT ({column.name} = {value})',
                                 f'{column.name} = {value} OR rowid % 2 = 0',
                                 f'coalesce({column.name}, 1) = 1'))]

    def passing(self, terms):
        if not terms:
            return set(self.rows)
        sql = f'SELECT rowid FROM {{c}} WHERE {" AND ".join(f"({t})" for t in terms)}'
        return {row[0] for row in self.connection.execute(named(self.connection, sql))}

    def where(self, first, terms):
        terms = [first] + [f'({t})' if ' OR ' in t else t for t in terms]
        self.rng.shuffle(terms)
        return ' AND '.join(terms)

    def all_of_it(self):
        """Makes an approximate index look at everything."""
        return ['nprobe = 100000'] if 'ivf' in self.column.index else []

    def k(self):
        return self.rng.choice((0, 1, 2, 3, 10, 10, 50, 1000))

    # --- vectors -------------------------------------------------------------

    def knn(self):
        truth, k, late = self.choose(), self.k(), self.late()
        terms, passing = self.filters()
        late_passing = self.passing(late)
        hits = [hit for hit in truth if hit[0] in passing][:k]
        where = self.where(f'{self.column.name} MATCH ?',
                           terms + late + self.all_of_it() + [f'k = {k}'])
        return Question(f'SELECT rowid, distance FROM {{x}} WHERE {where}', (self.input,),
                        [hit for hit in hits if hit[0] in late_passing])

    def limited(self):
        truth, k = self.choose(), self.k()
        terms, _ = self.filters()
        terms += self.late()
        passing = self.passing(terms)
        offset = self.rng.choice((0, 0, 1, 5))
        where = self.where(f'{self.column.name} MATCH ?', terms + self.all_of_it())
        return Question(f'SELECT rowid, distance FROM {{x}} WHERE {where} ORDER BY distance '
                        f'LIMIT {k} OFFSET {offset}', (self.input,),
                        [hit for hit in truth if hit[0] in passing][offset:offset + k])

    def radius(self, truth):
        return self.rng.choice(truth)[1] if truth else 1.0

    def ranged(self):
        truth = self.choose()
        terms, passing = self.filters()
        radius = self.radius(truth)
        where = self.where(f'{self.column.name} MATCH ?', terms + [f'distance <= {radius!r}'])
        return Question(f'SELECT rowid, distance FROM {{x}} WHERE {where}', (self.input,),
                        [hit for hit in truth if hit[0] in passing and hit[1] <= radius])

    def streamed(self):
        """Every row with every column."""
        truth = self.choose()
        names = [c.name for c in self.table.columns]
        where = self.where(f'{self.column.name} MATCH ?', self.all_of_it())
        return Question(f'SELECT rowid, distance, {", ".join(names)} FROM {{x}} WHERE {where}',
                        (self.input,),
                        [(rowid, distance, *(self.rows[rowid][n] for n in names))
                         for rowid, distance in truth])

    def knn_function(self):
        truth, k = self.choose(), self.k()
        return Question(f'SELECT rowid, distance FROM warp_knn_search(?, \'{self.column.name}\', ?, {k}, '
                        '\'{"exact":1}\')', (self.index_name(), self.input), truth[:k])

    def range_function(self):
        truth = self.choose()
        radius = self.radius(truth)
        return Question(f'SELECT rowid, distance FROM warp_range_search(?, \'{self.column.name}\', ?, '
                        f'{radius!r})', (self.index_name(), self.input),
                        [hit for hit in truth if hit[1] <= radius], ordered=False)

    def index_name(self):
        return named(self.connection, '{x}')

    def knn_join(self):
        self.column = self.rng.choice(self.table.vectors)
        terms, passing = self.filters()
        options = {'exact': 1, **({'filter': named(self.connection, ' AND '.join(terms))} if terms else {})}
        k, name = self.rng.randint(1, 4), self.column.name
        known = [(rowid, row[name]) for rowid, row in self.rows.items() if row[name] is not None][:5]
        expected = [(i, rowid, distance) for i, blob in known
                    for rowid, distance in [hit for hit in self.nearest(blob) if hit[0] in passing][:k]]
        values = ', '.join(f"({i}, x''{blob.hex()}'')" for i, blob in known) or '(1, NULL)'
        return Question(f'SELECT query_id, rowid, distance FROM warp_knn_join(?, \'{name}\', \'VALUES '
                        f'{values}\', {k}, ?)', (self.index_name(), json.dumps(options)), expected,
                        ordered=False)

    def graph(self):
        """The nearest others of every row."""
        self.column = self.rng.choice(self.table.vectors)
        if len(self.rows) > 40 or self.column.index or self.column.kind == 'SPARSE':
            return self.scanned()
        name, expected = self.column.name, []
        for rowid, row in self.rows.items():
            if row[name] is not None:
                others = [hit for hit in self.nearest(row[name]) if hit[0] != rowid]
                expected += [(rowid, *hit) for hit in others[:2]]
        return Question(f'SELECT rowid, neighbor, distance FROM warp_knn_graph(?, \'{name}\', 2)',
                        (self.index_name(),), expected, ordered=False)

    def joined(self):
        """The hits with the rows they are of."""
        truth, k = self.choose(), self.k()
        terms = ' AND '.join(['x.' + t for t in self.all_of_it()] + [f'x.k = {k}'])
        return Question(f'SELECT c.rowid, x.distance, c.title FROM {{x}} x JOIN {{c}} c ON c.rowid = '
                        f'x.rowid WHERE x.{self.column.name} MATCH ? AND {terms} '
                        'ORDER BY x.distance, x.rowid', (self.input,),
                        [(rowid, distance, self.rows[rowid]['title']) for rowid, distance in truth[:k]])

    # --- rows ----------------------------------------------------------------

    def scanned(self):
        terms, _ = self.filters()
        terms += self.late()
        passing = self.passing(terms)
        names = [c.name for c in self.table.columns]
        where = f'WHERE {self.where("1", terms)} ' if terms else ''
        return Question(f'SELECT rowid, {", ".join(names)} FROM {{x}} {where}ORDER BY rowid', (),
                        [(rowid, *(row[n] for n in names))
                         for rowid, row in sorted(self.rows.items()) if rowid in passing])

    def looked_up(self):
        rowid = self.rng.choice(list(self.rows) + [self.low])
        found = [(rowid, self.rows[rowid]['title'])] if rowid in self.rows else []
        return Question('SELECT rowid, title FROM {x} WHERE rowid = ?', (rowid,), found)

    def counted(self):
        terms, _ = self.filters()
        passing = self.passing(terms)
        where = f' WHERE {" AND ".join(terms)}' if terms else ''
        return Question(f'SELECT count(*), sum(rowid % 7) FROM {{x}}{where}', (),
                        self.connection.execute(
                            f'SELECT count(*), sum(column1 % 7) FROM (VALUES {values_of(passing)})')
                        if passing else [(0, None)])

    # --- texts and match counts ----------------------------------------------

    def text_distances(self):
        """A query, and [(rowid, what the column's MATCH calls distance)] in order."""
        known = [row['title'] for row in self.rows.values() if row['title']]
        query = self.rng.choice(known) if known and self.rng.random() < 0.5 else \
            self.table.text.random_value(self.rng)
        query = query or 'abba'
        texts = [(rowid, row['title']) for rowid, row in self.rows.items() if row['title'] is not None]
        if 'words' in self.table.text.search:
            mine = words(query, 'none')
            pairs = [(len(mine - words(text, 'none')), rowid) for rowid, text in texts
                     if mine & words(text, 'none')]
        else:
            pairs = [(edit_distance(query, text), rowid) for rowid, text in texts]
        return query, [(rowid, float(distance)) for distance, rowid in sorted(pairs)]

    def texts(self):
        query, truth = self.text_distances()
        terms, passing = self.filters()
        hits = [hit for hit in truth if hit[0] in passing]
        form, k = self.rng.random(), self.k()
        if form < 0.5:
            terms.append(f'k = {k}')
            hits = hits[:k]
        elif form < 0.8 and truth:
            radius = self.radius(truth)
            terms.append(f'distance <= {radius}')
            hits = [hit for hit in hits if hit[1] <= radius]
        limit = '' if form < 0.8 else f' ORDER BY distance LIMIT {k}'
        return Question(f'SELECT rowid, distance FROM {{x}} WHERE {self.where("title MATCH ?", terms)}'
                        + limit, (query,), hits if form < 0.8 else hits[:k])

    def text_function(self):
        query, truth = self.text_distances()
        k = self.k()
        if 'words' in self.table.text.search:
            mine = len(words(query, 'none'))
            return Question(f'SELECT rowid, matches FROM warp_document_search(?, \'title\', ?, {k})',
                            (self.index_name(), query),
                            [(rowid, mine - distance) for rowid, distance in truth[:k]])
        function = 'warp_sequence_search' if 'ngram' in self.table.text.search else 'warp_knn_search'
        if self.rng.random() < 0.3:
            radius = int(self.radius(truth))
            return Question(f'SELECT rowid, distance FROM warp_range_search(?, \'title\', ?, {radius})',
                            (self.index_name(), query), [h for h in truth if h[1] <= radius],
                            ordered=False)
        if function == 'warp_knn_search':
            return self.texts()
        return Question(f'SELECT rowid, distance FROM {function}(?, \'title\', ?, {k})',
                        (self.index_name(), query), truth[:k])

    def items(self):
        """A query of match counts, and [(rowid, matches)] in order."""
        a, b = sorted(self.rng.randint(-3, 9) for _ in range(2))
        low, high = sorted(self.rng.randint(-6, 18) / 2 for _ in range(2))
        items = {'year': ([a, b], lambda v: v is not None and a <= v <= b),
                 'score': ([low, high], lambda v: v is not None and low <= v <= high),
                 'title': ('a', lambda v: v == 'a')}
        wanted = self.rng.sample(sorted(items), self.rng.randint(1, 3))
        counts = []
        for rowid, row in self.rows.items():
            matches = sum(items[name][1](row[name]) for name in wanted)
            if matches:
                counts.append((-matches, rowid))
        query = json.dumps({name: items[name][0] for name in wanted})
        return query, [(rowid, -count) for count, rowid in sorted(counts)]

    def match_counts(self):
        query, truth = self.items()
        k = self.k()
        return Question(f'SELECT rowid, matches FROM warp_match_count(?, ?, {k})',
                        (self.index_name(), query), truth[:k])

    def matched_items(self):
        query, truth = self.items()
        terms, passing = self.filters()
        k = self.k()
        where = self.where('{x} MATCH ?', terms + [f'k = {k}'])
        return Question(f'SELECT rowid, matches FROM {{x}} WHERE {where}', (query,),
                        [hit for hit in truth if hit[0] in passing][:k])


def values_of(rowids):
    return ', '.join(f'({literal(rowid)})' for rowid in sorted(rowids))
