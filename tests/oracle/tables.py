"""A random warp table and its mirror: an ordinary table that gets the same changes.

SQLite evaluates every predicate on the mirror; Python computes the distances.
"""
import vectors

PLAIN_TYPES = ('INTEGER', 'REAL', 'TEXT', 'BOOLEAN')
REALS = (0.1 + 0.2, 1 / 3, 1e22, 2e-5, 123456789012345680.0, -0.0, 1e300, 2.0**53, 5032.18666821539,
         float('inf'), float('-inf'))
WORDS = ('apple', 'Apple', 'banana', 'apple pie', '', 'x', 'B', 'b ', 'å', '20', '-3', '1e2')


def random_hashing(rng, kind, distance):
    """An index that learns, or none. With so many candidates its answers are exact."""
    families = {'l2': ('e2lsh, width=', ), 'l1': ('e2lsh, width=', 'rbh, sigma='),
                'cosine': ('simhash', )}
    if kind == 'BIT' or distance not in families or rng.random() < 0.5:
        return ''
    if rng.random() < 0.5:
        return ' index=' + rng.choice(('list_of_clusters(size=2)', 'list_of_clusters(size=20)',
                                       'sss(alpha=0.3)', 'sss'))
    family = rng.choice(families[distance])
    if family != 'simhash':
        family += f'{rng.choice((0.7, 4, 300))}, buckets={rng.choice((2, 67, 8192, 100000))}'
    return f' index=lsh(family={family}, m={rng.choice((1, 5, 64, 130))}, refine=10000)'


class VectorColumn:
    def __init__(self, name, kind, dim, distance, index):
        self.name, self.kind, self.dim, self.distance = name, kind, dim, distance
        self.index = index

    def learns(self):
        return self.index.startswith((' index=ivf', ' index=lsh'))

    def declaration(self):
        return f'{self.name} {self.kind}[{self.dim}] distance={self.distance}{self.index}'


class PlainColumn:
    def __init__(self, name, type_name, partition=False, aux=False):
        self.name, self.type, self.partition, self.aux = name, type_name, partition, aux

    def declaration(self):
        if self.aux:
            return f'+{self.name} {self.type}'
        return f'{self.name} {self.type}' + (' PARTITION KEY' if self.partition else '')

    def random_value(self, rng):
        if rng.random() < 0.15:
            return None
        if self.type == 'INTEGER':
            return rng.choice((rng.randint(-3, 9), rng.randint(-3, 9), 2**53 + rng.randint(0, 2),
                               -2**63, 2**63 - 1))
        if self.type == 'REAL':
            return rng.choice((rng.randint(-3, 9) / 2, float(rng.randint(-3, 9)), rng.choice(REALS)))
        if self.type == 'TEXT':
            return rng.choice(WORDS)
        return rng.randint(0, 1)

    def random_input(self, rng):
        """A value as it is given, perhaps of another type than the column stores."""
        value = self.random_value(rng)
        if value is None or rng.random() < 0.8:
            return value
        if self.type == 'TEXT':
            return rng.choice((rng.choice(REALS), rng.randint(-3, 9), rng.randint(-3, 9) / 4))
        if self.type == 'REAL':
            return rng.choice(('5032.18666821539', ' 1e22 ', '7', '0729374.257663562020769', 3))
        return str(value)


class Table:
    """The two declarations, and random rows for both."""

    def __init__(self, rng):
        self.vectors = []
        for i in range(rng.choice((1, 1, 2, 3))):
            kind = rng.choice(tuple(vectors.DISTANCES))
            dim = 8 * rng.randint(1, 5) if kind == 'BIT' else rng.choice((1, 2, 3, 7, 16, 17, 40))
            if kind == 'SPARSE':
                dim = rng.choice((dim, 30522, 2**31))
            distance = rng.choice(vectors.DISTANCES[kind])
            self.vectors.append(
                VectorColumn(f'v{i}', kind, dim, distance, random_hashing(rng, kind, distance)))
        self.learning = [c for c in self.vectors if c.learns()]
        self.plains = [PlainColumn(f'c{i}', rng.choice(PLAIN_TYPES))
                       for i in range(rng.randint(1, 4))]
        if rng.random() < 0.4:
            self.plains.append(PlainColumn('p', rng.choice(('INTEGER', 'TEXT')), partition=True))
        self.aux = [PlainColumn('a', rng.choice(('INTEGER', 'TEXT')), aux=True)]
        if rng.random() < 0.5:
            self.aux = []
        self.columns = self.vectors + self.plains + self.aux
        rng.shuffle(self.columns)
        self.names = ', '.join(c.name for c in self.columns)

    def create_warp(self):
        columns = ', '.join(c.declaration() for c in self.columns)
        return f'CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, {columns})'

    def create_mirror(self):
        columns = ', '.join(c.name + (' BLOB' if isinstance(c, VectorColumn) else f' {c.type}')
                            for c in self.columns)
        return f'CREATE TABLE t(id INTEGER PRIMARY KEY, {columns})'

    def random_cells(self, rng, columns, known_blobs=()):
        """(cells for the warp table, cells for the mirror)."""
        warp, mirror = [], []
        for column in columns:
            if isinstance(column, PlainColumn):
                value = column.random_input(rng)
                warp.append(value)
                mirror.append(value)
            elif rng.random() < 0.08:
                warp.append(None)
                mirror.append(None)
            else:
                blob = vectors.random_blob(rng, column.kind, column.dim)
                warp.append(vectors.as_input(rng, column.kind, blob))
                mirror.append(blob)
        return warp, mirror
