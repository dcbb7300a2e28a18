#!/usr/bin/env python3
"""Tables that come, go and are renamed within savepoints, their rows compared with a model.

usage: schema_oracle.py path/to/warplite.so [seed [rounds]]

SQLite tells a virtual table little of savepoints that are older than the table itself, and nothing once it
was dropped. On a difference it prints the statements of the round.
"""
import copy
import random
import sys

import drivers

TABLES = ('a', 'b', 'c')
# What others have under names of shadow tables that those have no use for.
FOREIGN = ('CREATE TABLE a_keys(y); INSERT INTO a_keys VALUES (1)', 'CREATE VIEW b_keys AS SELECT 2 AS y',
           'CREATE VIRTUAL TABLE c_keys USING warp(y INTEGER); INSERT INTO c_keys(y) VALUES (3)')
FOREIGN_ROWS = 'SELECT * FROM (SELECT y FROM a_keys), (SELECT y FROM b_keys), (SELECT y FROM c_keys)'
STEPS = 150
# Of so many dimensions 64 rows make a segment, and what fills two is written within the transaction.
LARGE, SEGMENT = 16384, 64


class Difference(Exception):
    pass


class Round:
    def __init__(self, driver, extension, seed):
        self.rng = random.Random(seed)
        self.db = driver(':memory:', extension)
        self.tables = {}      # name: (dimensions, {rowid: y})
        self.savepoints = []  # (name or None for BEGIN, the tables then)
        self.statements = []
        self.reading = None   # (a cursor, the table's name now, the rows it has not given yet)
        self.small = self.rng.random() < 0.7
        self.unseen = self.rng.choice((0, 0.5, 0.9))  # a look connects a table, which may change things
        for statements in FOREIGN:
            for sql in statements.split('; '):
                self.run(sql)

    def run(self, sql, refusal=None):
        """Whether it was done; a refusal that says `refusal` is no difference."""
        self.statements.append(sql)
        try:
            self.db.execute(sql)
            return True
        except drivers.SqlError as error:
            self.statements[-1] += f'  -- {error}'
            if refusal is None or refusal not in str(error):
                raise Difference(f'failed: {error}') from None
            return False

    def open_savepoint(self):
        outer = not self.savepoints and self.rng.random() < 0.5
        name = None if outer else f's{len(self.savepoints)}'
        self.run('BEGIN' if outer else f'SAVEPOINT {name}')
        self.savepoints.append((name, copy.deepcopy(self.tables)))

    def close_savepoint(self):
        at = self.rng.randrange(len(self.savepoints))
        name, tables = self.savepoints[at]
        if name is None:
            return self.end()
        if self.rng.random() < 0.65:
            self.finish_reading()
            self.run(f'ROLLBACK TO {name}')
            self.tables = copy.deepcopy(tables)
            del self.savepoints[at + 1:]
        else:
            self.run(f'RELEASE {name}')
            del self.savepoints[at:]

    def end(self):
        if self.rng.random() < 0.7:
            self.run('COMMIT')
        else:
            self.finish_reading()
            self.run('ROLLBACK')
            self.tables = self.savepoints[0][1]
        self.savepoints = []

    def create(self, name):
        dim = self.rng.choice((1, 1, 1, 2) if self.small else (1, LARGE, LARGE))
        self.run(f'CREATE VIRTUAL TABLE {name} USING warp(e FLOAT[{dim}], y INTEGER, +note)')
        self.tables[name] = (dim, {})

    def drop(self, name):
        if self.rng.random() < 0.5:
            self.finish_reading()
        refused = self.savepoints or self.reading is not None
        if self.run(f'DROP TABLE {name}', 'database table is locked' if refused else None):
            del self.tables[name]

    def rename(self, name):
        other = self.rng.choice(TABLES)
        if self.reading is not None and self.reading[1] in (name, other):
            self.reading[1] = other if self.reading[1] == name else name
        if other != name and other in self.tables:
            self.run(f'ALTER TABLE {other} RENAME TO other')
        if other != name:
            self.run(f'ALTER TABLE {name} RENAME TO {other}')
            moved = self.tables.pop(name)
            if other in self.tables:
                self.run(f'ALTER TABLE other RENAME TO {name}')
                self.tables[name] = self.tables[other]
            self.tables[other] = moved
        else:
            self.run(f'ALTER TABLE {name} RENAME TO {name}_2')
            self.run(f'ALTER TABLE {name}_2 RENAME TO {name}')

    def start_reading(self, name):
        self.finish_reading()
        rows = sorted(self.tables[name][1].items())
        self.statements.append(f'-- reading {name}')
        cursor = self.db.iterate(f'SELECT rowid, y, note FROM {name}')
        self.reading = [cursor, name, [(rowid, y, f'n{y}') for rowid, y in rows]]
        self.read_row()

    def read_row(self):
        if self.reading is None:
            return
        cursor, name, rows = self.reading
        try:
            row = next(cursor, None)
        except drivers.SqlError as error:
            raise Difference(f'reading {name} failed: {error}') from None
        expected = rows.pop(0) if rows else None
        if row is None or expected is None:
            self.reading = None
        if (row and tuple(row)) != expected:
            raise Difference(f'reading {name} gave {row}, expected {expected}')

    def finish_reading(self):
        while self.reading is not None:
            self.read_row()

    def about_to_change(self, name):
        if self.reading is not None and self.reading[1] == name:
            self.finish_reading()

    def insert(self, name):
        self.about_to_change(name)
        dim, rows = self.tables[name]
        new = {self.rng.randrange(30): self.rng.randrange(1000)
               for _ in range(self.rng.choice((1, 1, 1, 3)))}
        vectors = {y: f'zeroblob({4 * LARGE})' if dim == LARGE else f"'{[y] * dim}'" for y in new.values()}
        values = ', '.join(f"({rowid}, {vectors[y]}, {y}, 'n{y}')" for rowid, y in new.items())
        self.run(f'INSERT OR REPLACE INTO {name}(rowid, e, y, note) VALUES {values}')
        rows.update(new)

    def insert_many(self, name):
        dim, rows = self.tables[name]
        if dim != LARGE:
            return self.insert(name)
        self.about_to_change(name)
        first, y = self.rng.choice((30, 30 + SEGMENT)), self.rng.randrange(1000)
        count = self.rng.choice((1, 2, 2, 4)) * SEGMENT + self.rng.choice((0, 0, 1))
        self.run(f'INSERT OR REPLACE INTO {name}(rowid, e, y, note) '
                 f'WITH n(i) AS (VALUES ({first}) UNION ALL SELECT i + 1 FROM n LIMIT {count}) '
                 f"SELECT i, zeroblob({4 * LARGE}), {y}, 'n{y}' FROM n")
        rows.update((rowid, y) for rowid in range(first, first + count))

    def delete(self, name):
        self.about_to_change(name)
        rowid = self.rng.randrange(30)
        self.run(f'DELETE FROM {name} WHERE rowid = {rowid}')
        self.tables[name][1].pop(rowid, None)

    def step(self):
        chance = self.rng.random()
        name = self.rng.choice(TABLES)
        if chance < 0.2:
            self.open_savepoint()
        elif chance < 0.37:
            if self.savepoints:
                self.close_savepoint()
        elif name not in self.tables:
            self.create(name)
        else:
            change = self.rng.choices((self.drop, self.rename, self.insert, self.insert_many,
                                       self.delete, self.start_reading), (8, 8, 20, 5, 10, 5))[0]
            change(name)
        if self.rng.random() < 0.3:
            self.read_row()

    def compare(self):
        for name in TABLES:
            if self.rng.random() < self.unseen:
                continue
            try:
                found = dict(self.db.execute(f'SELECT rowid, y FROM {name}'))
            except drivers.SqlError as error:
                if name in self.tables or 'no such table' not in str(error):
                    raise Difference(f'{name} failed: {error}') from None
                continue
            expected = self.tables[name][1] if name in self.tables else 'no table'
            if found != expected:
                raise Difference(f'{name} has {found}, expected {expected}')
            if self.rng.random() < 0.1:
                self.run(f"INSERT INTO {name}({name}) VALUES ('integrity-check')")

    def play(self):
        for _ in range(STEPS):
            self.step()
            self.compare()
        found = [tuple(row) for row in self.db.execute(FOREIGN_ROWS)]
        if found != [(1, 2, 3)]:
            raise Difference(f'the rows of others are {found}')
        self.finish_reading()
        self.db.close()


def play(driver, extension, seed):
    game = Round(driver, extension, seed)
    try:
        game.play()
    except Difference as difference:
        return '\n  '.join([str(difference)] + game.statements)
    return None


if __name__ == '__main__':
    sys.exit(drivers.play_rounds(play))
