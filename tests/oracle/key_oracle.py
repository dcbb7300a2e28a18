#!/usr/bin/env python3
"""Random writes to a warp table with a TEXT PRIMARY KEY, compared with an ordinary table: rows, rowids
that the table chose, last_insert_rowid() and changes().

usage: key_oracle.py path/to/warplite.so [seed [rounds]]

On a difference it prints the statements of the round.
"""
import random
import sys

import drivers

COLUMNS = 'word TEXT PRIMARY KEY, a INTEGER'
STEPS = 120
VERBS = ('INSERT', 'INSERT', 'REPLACE', 'REPLACE', 'INSERT OR IGNORE', 'INSERT OR FAIL')


def random_statement(rng, in_transaction):
    def word():
        return f"'{rng.choice('abcdefgh')}'"

    def rowid():
        return rng.choice((-2, 0, 1 << 62)) if rng.random() < 0.1 else rng.randint(1, 12)

    chance = rng.random()
    if chance < 0.5:
        columns, row = rng.choice((('word, a', lambda: f'({word()}, {rng.randint(0, 9)})'),
                                   ('word, a', lambda: f'({word()}, {rng.randint(0, 9)})'),
                                   ('rowid, word', lambda: f'({rowid()}, {word()})')))
        rows = ', '.join(row() for _ in range(rng.choice((1, 1, 2, 4))))
        return f'{rng.choice(VERBS)} INTO t({columns}) VALUES {rows}'
    if chance < 0.65:
        change = rng.choice((f'word = {word()}', 'a = a + 1', f'rowid = {rowid()}',
                             f'rowid = {rowid()}, word = {word()}'))
        where = rng.choice((f'word = {word()}', f'rowid = {rowid()}', f'a = {rng.randint(0, 9)}'))
        return f"UPDATE {rng.choice(('', 'OR REPLACE', 'OR IGNORE'))} t SET {change} WHERE {where}"
    if chance < 0.8:
        return 'DELETE FROM t WHERE ' + rng.choice((f'word = {word()}', f'rowid > {rowid()}'))
    if not in_transaction:
        return rng.choice(('BEGIN', 'SAVEPOINT s'))
    return rng.choice(('SAVEPOINT s', 'ROLLBACK TO s', 'RELEASE s', 'COMMIT', 'ROLLBACK'))


def outcome(connection, sql):
    """What the statement did, and the rows after it."""
    try:
        connection.execute(sql)
        done = 'done'
    except drivers.SqlError as error:
        done = str(error)
    counts = 'SELECT last_insert_rowid(), changes()'
    # A COMMIT counts what it wrote, and SQLite a row that was replaced before its turn came.
    if sql.split()[0] in ('BEGIN', 'SAVEPOINT', 'RELEASE', 'COMMIT', 'ROLLBACK') or 'E OR REPLACE' in sql:
        counts = 'SELECT last_insert_rowid()'
    return [done, connection.execute(counts), connection.execute('SELECT rowid, word, a FROM t ORDER BY 1')]


def play(driver, extension, seed):
    rng = random.Random(seed)
    tables = driver(':memory:', extension), driver(':memory:')
    tables[0].execute(f'CREATE VIRTUAL TABLE t USING warp({COLUMNS})')
    tables[1].execute(f'CREATE TABLE t({COLUMNS})')
    statements = []
    for _ in range(STEPS):
        statements.append(random_statement(rng, tables[1].in_transaction()))
        found, expected = (outcome(table, statements[-1]) for table in tables)
        if found != expected:
            return f'got {found}\n  expected {expected}\n  ' + '\n  '.join(statements)
    tables[0].execute("INSERT INTO t(t) VALUES ('integrity-check')")
    for table in tables:
        table.close()
    return None


if __name__ == '__main__':
    sys.exit(drivers.play_rounds(play))
