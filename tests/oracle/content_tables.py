"""A random ordinary table, and the index over it that content= makes."""
import json
import struct

import vectors
from tables import PlainColumn, VectorColumn, random_hashing

# What they may be called; ALTER TABLE goes from one to another.
CONTENT_NAMES = ('c', 'c two', 'c"three')
INDEX_NAMES = ('x', 'x two', 'x"three')
LETTERS = 'aaabbc é'
TEXT_SEARCH = ('', ' distance=edit', ' index=ngram(n=2)', ' index=words', ' index=ngram(n=1)',
               ' distance=edit index=sss', ' distance=edit index=list_of_clusters(size=3)')


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def named(connection, sql):
    """The statement with the names that the tables have now; None when one is not there."""
    for mark, names in (('{c}', CONTENT_NAMES), ('{x}', INDEX_NAMES)):
        if mark in sql:
            marks = ', '.join('?' * len(names))
            found = connection.execute(f'SELECT name FROM sqlite_master WHERE type = \'table\' '
                                       f'AND name IN ({marks})', names)
            if not found:
                return None
            sql = sql.replace(mark, quoted(found[0][0]))
    return sql


def random_index(rng, kind, distance):
    """An index whose answers are exact when it is asked for everything."""
    if kind == 'SPARSE':
        return ''
    if kind != 'BIT' and distance != 'l1' and rng.random() < 0.3:
        return ' index=' + rng.choice(('ivfflat(lists=2)', 'ivfflat(lists=5)',
                                       'ivfpq(lists=2, m=1, refine=10000)',
                                       'ivfrabitq(lists=3, bits=1, refine=10000)'))
    return random_hashing(rng, kind, distance) if rng.random() < 0.4 else ''


class TextColumn(PlainColumn):
    """TEXT that is searched, in words of few letters so that texts are near one another."""

    def __init__(self, name, search):
        super().__init__(name, 'TEXT')
        self.search = search

    def declaration(self):
        return f'{self.name} TEXT{self.search}'

    def random_value(self, rng):
        if rng.random() < 0.1:
            return None
        return ''.join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 3, 6, 12))))


class ContentTable:
    """The declarations, and random cells for the columns."""

    def __init__(self, rng):
        self.key = rng.choice(('id', 'id', 'number', ''))  # the INTEGER PRIMARY KEY, if there is one
        self.vectors = []
        for i in range(rng.choice((1, 1, 2))):
            kind = rng.choice(('FLOAT', *vectors.DISTANCES))
            dim = 8 * rng.randint(1, 3) if kind == 'BIT' else rng.choice((1, 2, 3, 7, 17))
            distance = rng.choice(vectors.DISTANCES[kind])
            self.vectors.append(VectorColumn(f'v{i}', kind, dim, distance,
                                             random_index(rng, kind, distance)))
        self.text = TextColumn('title', rng.choice(TEXT_SEARCH))
        self.plains = [PlainColumn('year', 'INTEGER'), PlainColumn('score', 'REAL'), self.text]
        if rng.random() < 0.3:
            self.plains.append(PlainColumn('flag', 'BOOLEAN'))
        if rng.random() < 0.3:
            self.plains.append(PlainColumn('tenant', 'TEXT', partition=True))
        self.owner = PlainColumn('owner', 'INTEGER')
        self.owner_is_indexed = rng.random() < 0.5
        if self.owner_is_indexed:
            self.plains.append(self.owner)
        self.aux = [PlainColumn('note', 'TEXT', aux=True)] if rng.random() < 0.4 else []
        self.columns = self.vectors + self.plains + self.aux  # of the index
        rng.shuffle(self.columns)
        self.hidden = [PlainColumn('other', 'TEXT')] + ([] if self.owner_is_indexed else [self.owner])
        self.stored = [c for c in self.columns + self.hidden]  # of the table, without key and code
        rng.shuffle(self.stored)
        self.on_delete = rng.choice(('CASCADE', 'CASCADE', 'SET NULL', 'NO ACTION'))
        self.on_update = rng.choice(('CASCADE', 'SET NULL'))
        self.manual = rng.random() < 0.15
        self.touches = rng.random() < 0.3
        self.learning = [c for c in self.vectors if c.learns()]

    def create_content(self):
        """What the application has: on the mirror as well."""
        columns = [f'{self.key} INTEGER PRIMARY KEY'] if self.key else []
        columns.append('code TEXT UNIQUE')
        for column in self.stored:
            if isinstance(column, VectorColumn):
                columns.append(column.name)
            elif column is self.owner:
                columns.append(f'owner INTEGER REFERENCES p(id) ON DELETE {self.on_delete} '
                               f'ON UPDATE {self.on_update}')
            else:
                columns.append(f'{column.name} {column.type}')
        statements = ['CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT)',
                      f'CREATE TABLE c({", ".join(columns)})']
        if self.touches:
            statements.append('CREATE TRIGGER touch AFTER UPDATE OF other ON c WHEN NEW.score < 5 BEGIN '
                              'UPDATE c SET score = score + 1 WHERE rowid = NEW.rowid; END')
        return statements

    def create_index(self):
        """With {c} and {x} for the names."""
        options = ['content={c}']
        if self.key:
            options.append(f'content_rowid={self.key}')
        if self.manual:
            options.append('sync=manual')
        columns = [column.declaration() for column in self.columns]
        return f'CREATE VIRTUAL TABLE {{x}} USING warp({", ".join(options + columns)})'

    def random_cell(self, rng, column):
        if isinstance(column, VectorColumn):
            if rng.random() < 0.1:
                return None
            blob = vectors.random_blob(rng, column.kind, column.dim)
            return vectors.as_input(rng, column.kind, blob)
        if column is self.owner:
            return rng.choice((None, 1, 2, 3, 4, 5))
        return column.random_value(rng)

    def invalid_cell(self, rng):
        """A column and a value that the index must refuse, although an ordinary table takes it."""
        column = rng.choice(self.vectors + [c for c in self.plains if c is not self.owner])
        if isinstance(column, VectorColumn):
            nan = struct.pack('<f', float('nan')) * column.dim
            short = b'\1' if column.kind == 'SPARSE' else b''
            return column, rng.choice((short, b'\1' * 5 * column.dim + b'\1', '[1, "a"]', '', 7,
                                       nan if column.kind == 'FLOAT' else short))
        return column, {'INTEGER': 'abc', 'REAL': 'abc', 'TEXT': b'\0', 'BOOLEAN': 2}[column.type]


def canonical(column, cell):
    """The bytes that a vector column holds for what the application wrote."""
    if cell is None:
        return None
    if isinstance(cell, str):
        return vectors.encode(column.kind, json.loads(cell))
    if column.kind in ('FLOAT16', 'BFLOAT16') and len(cell) == 4 * column.dim:
        return vectors.encode(column.kind, vectors.decode('FLOAT', cell))
    return cell
