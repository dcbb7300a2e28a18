#!/usr/bin/env python3
"""Compares random queries on random warp tables with brute force, distances to the last bit.

usage: oracle.py path/to/warplite.so [seed [steps [path-to-trace]]]

Each step changes the table or asks something. On a difference it prints the seed, the query,
both answers, and the shortest list of earlier changes found that still shows it. A trace file
gets every statement before it runs, for crashes.
"""
import itertools
import os
import random
import sys
import tempfile
import time

import drivers
import predicates
from queries import Questioner
from tables import Table

SHRINK_SECONDS = 20


class Change:
    """A statement for the warp table and its counterpart for the mirror."""

    def __init__(self, sql, warp=(), mirror=None, mirror_sql=None, many=False):
        self.sql, self.warp, self.many = sql, warp, many
        self.mirror = warp if mirror is None else mirror
        self.mirror_sql = sql if mirror_sql is None else mirror_sql

    def run(self, connection, sql, parameters):
        if sql and self.many:
            connection.executemany(sql, parameters)
        elif sql:
            connection.execute(sql, parameters)

    def apply(self, session):
        """Both must succeed or both must fail; returns a complaint or None."""
        outcomes = []
        for connection, sql, parameters in ((session.warp, self.sql, self.warp),
                                            (session.mirror, self.mirror_sql, self.mirror)):
            try:
                self.run(connection, sql, parameters)
                outcomes.append(None)
            except drivers.SqlError as error:
                outcomes.append(str(error))
        if (outcomes[0] is None) != (outcomes[1] is None):
            return f'{self.describe()}\n  warp: {outcomes[0]}\n  SQLite: {outcomes[1]}'
        return None

    def describe(self):
        shown = self.warp if not self.many else f'{len(self.warp)} rows, first {self.warp[:2]}'
        return f'{self.sql} {shown if self.warp else ""}'


class Session:
    """A warp table, its mirror, and what was done to both."""

    def __init__(self, driver, extension, table, path, settings):
        self.driver, self.extension, self.path = driver, extension, path
        self.own = []  # settings of the connections
        self.warp = driver(path, extension)
        self.mirror = driver(':memory:')
        for sql in settings:
            self.warp.execute(sql)
        self.warp.execute(table.create_warp())
        self.mirror.execute(table.create_mirror())
        for connection in (self.warp, self.mirror):
            connection.execute('CREATE TABLE o(onum INTEGER PRIMARY KEY, ref INTEGER, tag INTEGER)')
        self.mirror.execute('CREATE TEMP TABLE d(did INTEGER PRIMARY KEY, distance REAL)')
        self.mirror.execute('CREATE TEMP TABLE hits(id INTEGER PRIMARY KEY, distance REAL)')

    def reopen(self):
        self.warp.close()
        self.warp = self.driver(self.path, self.extension)
        for setting in self.own:
            setting.apply_to(self.warp)

    def close(self):
        self.warp.close()
        self.mirror.close()


class Reopen:
    """Closes and opens the file again; does nothing to a database in memory."""

    sql = '-- close and open the file again'

    def apply(self, session):
        if session.path != ':memory:' and not session.warp.in_transaction():
            session.reopen()

    def describe(self):
        return self.sql


def same_first(pattern, value, escape=None):
    """A function that an application might have in place of like() and glob()."""
    if pattern is None or value is None:
        return None
    if value == 0:
        value = 0.0  # an ordinary table keeps no sign of it
    return int(str(pattern)[:1].lower() == str(value)[:1].lower())


class Setting:
    """What a connection has of its own: both get it, and again when the file is opened again."""

    def __init__(self, text, apply_to):
        self.text, self.apply_to = text, apply_to

    def apply(self, session):
        session.own.append(self)
        for connection in (session.warp, session.mirror):
            self.apply_to(connection)

    def describe(self):
        return self.text


def random_setting(rng):
    name, arguments = rng.choice(('like', 'glob')), rng.choice((2, 2, -1))
    case = rng.randint(0, 1)
    return rng.choice((
        Setting(f'-- an application has {name}/{arguments}',
                lambda connection: connection.create_function(name, arguments, same_first)),
        Setting(f'PRAGMA case_sensitive_like = {case}',
                lambda connection: connection.execute(f'PRAGMA case_sensitive_like = {case}'))))


def random_id(rng, session):
    rows = session.mirror.execute('SELECT id FROM t ORDER BY id LIMIT 1 OFFSET ?',
                                  (rng.randint(0, 300),))
    return rows[0][0] if rows and rng.random() < 0.8 else rng.randint(-5, 600)


def random_insert(rng, table, session):
    verb = rng.choice(('INSERT', 'INSERT', 'INSERT OR REPLACE', 'INSERT OR IGNORE', 'INSERT OR FAIL'))
    warp_rows, mirror_rows, count = [], [], rng.choice((1, 1, 2, 5, 20))
    for _ in range(count):
        rowid = rng.choice((None, random_id(rng, session)))
        warp, mirror = table.random_cells(rng, table.columns)
        warp_rows += [rowid] + warp
        mirror_rows += [rowid] + mirror
    values = ', '.join('(' + ', '.join('?' * (len(table.columns) + 1)) + ')' for _ in range(count))
    return Change(f'{verb} INTO t(id, {table.names}) VALUES {values}', warp_rows, mirror_rows)


def random_bulk(rng, table, session):
    base = rng.choice((1000, 5000, -4000)) + rng.randint(0, 500)
    warp_rows, mirror_rows = [], []
    for i in range(rng.choice((50, 300, 700))):
        warp, mirror = table.random_cells(rng, table.columns)
        warp_rows.append([base + i * rng.choice((1, 1, 2))] + warp)
        mirror_rows.append([warp_rows[-1][0]] + mirror)
    marks = ', '.join('?' * (len(table.columns) + 1))
    return Change(f'INSERT OR REPLACE INTO t(id, {table.names}) VALUES ({marks})', warp_rows,
                  mirror_rows, many=True)


def random_where(rng, table, a):
    column = rng.choice(table.plains)
    return ' AND '.join(predicates.random_filters(rng, table, a - 50, a + 50, 2)
                        + [predicates.pattern_term(rng, column.name)])


def random_update(rng, table, session):
    columns = rng.sample(table.columns, rng.randint(1, min(2, len(table.columns))))
    warp, mirror = table.random_cells(rng, columns)
    assignments = ', '.join(f'{c.name} = ?' for c in columns)
    if rng.random() < 0.2:
        assignments += f', id = {rng.randint(-5, 600)}'
        where = f'id = {random_id(rng, session)}'
    else:
        a = random_id(rng, session)
        where = rng.choice((f'id = {a}', f'id BETWEEN {a} AND {a + 10}', f'id % 7 = {a % 7}',
                            random_where(rng, table, a)))
    verb = rng.choice(('UPDATE', 'UPDATE', 'UPDATE OR REPLACE', 'UPDATE OR IGNORE'))
    return Change(f'{verb} t SET {assignments} WHERE {where}', warp, mirror)


def random_delete(rng, table, session):
    a = random_id(rng, session)
    if rng.random() < 0.03:
        return Change('DELETE FROM t')
    return Change('DELETE FROM t WHERE ' + rng.choice(
        (f'id = {a}', f'id = {a}', f'id BETWEEN {a} AND {a + 20}', f'id % 11 = {a % 11}',
         f'id BETWEEN {a} AND {a + 60} AND {random_where(rng, table, a)}')))


def random_transaction(rng, table, session):
    if not session.warp.in_transaction():
        return Change(rng.choice(('BEGIN', 'BEGIN', 'SAVEPOINT s1')))
    return Change(rng.choice(('SAVEPOINT s1', 'SAVEPOINT s2', 'ROLLBACK TO s1', 'ROLLBACK TO s2',
                              'RELEASE s1', 'RELEASE s2', 'COMMIT', 'COMMIT', 'ROLLBACK')))


def random_other(rng, table, session):
    choice = rng.random()
    if choice < 0.35:
        rows = [(i, rng.randint(-5, 300), rng.randint(0, 9)) for i in range(rng.randint(0, 12))]
        return Change('INSERT OR REPLACE INTO o VALUES (?, ?, ?)', rows, many=True)
    if choice < 0.5:
        return Reopen()
    if choice < 0.6:
        return random_setting(rng)
    if choice < 0.7:
        setting = rng.choice(("'threads', 1", "'threads', 2", "'threads', 3", "'threads', 0",
                              "'cpu_memory_limit', 4000", "'cpu_memory_limit', 0"))
        return Change(f'SELECT warp_config({setting})', mirror_sql='')
    commands = ('integrity-check', 'integrity-check', 'optimize', 'rebuild')
    command = rng.choice(commands + ('train', 'train') if table.learning else commands)
    return Change(f"INSERT INTO t(t) VALUES ('{command}')", mirror_sql='')


def random_change(rng, table, session):
    kinds = ((random_insert, 8), (random_bulk, 1), (random_update, 5), (random_delete, 3),
             (random_transaction, 5), (random_other, 3))
    kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
    return kind(rng, table, session)


def compare(session, query):
    """A complaint about the answer, or None."""
    try:
        got = session.warp.execute(query.sql, query.parameters)
    except drivers.SqlError as error:
        if query.may_be_refused(str(error)):
            return None
        return f'  got the error: {error}\n  expected: {query.expected[:20]}'
    return difference(query, got)


def difference(query, got):
    got = [tuple(row) for row in got]
    expected = query.expected_for(got)
    if not query.ordered:
        key = lambda row: [(cell is not None, cell) for cell in row]
        got, expected = sorted(got, key=key), sorted(expected, key=key)
    if got == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b),
              min(len(got), len(expected)))
    return (f'  {len(got)} rows, expected {len(expected)}; they differ at row {at}:\n'
            f'  got      {got[at:at + 6]}\n  expected {expected[at:at + 6]}')


class Run:
    def __init__(self, driver, extension, seed, trace):
        self.rng = random.Random(seed)
        self.driver, self.extension, self.trace = driver, extension, trace
        self.table = Table(self.rng)
        self.directory = tempfile.mkdtemp(prefix='warplite-oracle-')
        self.on_file = self.rng.random() < 0.6
        self.settings = [self.rng.choice(('PRAGMA journal_mode = wal', 'PRAGMA journal_mode = delete')),
                         'PRAGMA synchronous = off']
        self.changes = []
        self.sessions = 0

    def session(self):
        self.sessions += 1
        path = os.path.join(self.directory, f'{self.sessions}.db') if self.on_file else ':memory:'
        return Session(self.driver, self.extension, self.table, path, self.settings)

    def note(self, text):
        if self.trace:
            self.trace.write(text + '\n')
            self.trace.flush()

    def run(self, steps):
        """How many questions were answered right, and a complaint about the first that was not."""
        session, answered = self.session(), 0
        self.note(self.table.create_warp())
        for _ in range(steps):
            if self.rng.random() < 0.4:
                change = random_change(self.rng, self.table, session)
                self.note(change.describe())
                self.changes.append(change)
                complaint = change.apply(session)
                if complaint:
                    return answered, complaint
                continue
            if self.rng.random() < 0.05:
                complaint = self.ask_meanwhile(session)
                if complaint:
                    return answered, complaint
                answered += 1
                continue
            state = self.rng.getstate()
            query = Questioner(self.rng, self.table, session.mirror).random_query()
            self.note(f'{query.sql} {query.parameters}')
            complaint = compare(session, query)
            if complaint:
                session.close()
                return answered, f'{query.sql}\n  {query.parameters}\n{complaint}\n' + self.shrunk(state)
            answered += 1
        session.close()
        return answered, None

    def ask_meanwhile(self, session):
        """Changes the table while a question is being answered: the answer is that of its beginning."""
        query = Questioner(self.rng, self.table, session.mirror).left_open()
        self.note(f'-- begins: {query.sql} {query.parameters}')
        cursor = session.warp.iterate(query.sql, query.parameters)
        try:
            got = list(itertools.islice(cursor, self.rng.choice((1, 1, 2, 30))))
        except drivers.SqlError as error:
            return None if query.may_be_refused(str(error)) else f'{query.sql}\n  {error}'
        made = []
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.choice((random_insert, random_bulk, random_update, random_delete,
                                    random_transaction))
            change = kind(self.rng, self.table, session)
            self.note(change.describe())
            self.changes.append(change)
            made.append(change.describe())
            complaint = change.apply(session)
            if complaint:
                return complaint
        self.note('-- goes on')
        try:
            got += cursor
        except drivers.SqlError as error:
            # What shows rows of a transaction ends with it.
            if any('ROLLBACK' in change for change in made) and 'were rolled back' in str(error):
                return None
            return f'{query.sql}\n  {error} after\n  ' + '\n  '.join(made)
        complaint = difference(query, got)
        return complaint and f'{query.sql}\n  {query.parameters}\n{complaint}\n  after ' + '\n  '.join(made)

    def still_fails(self, changes, state):
        session = self.session()
        try:
            for change in changes:
                change.apply(session)
            rng = random.Random()
            rng.setstate(state)
            query = Questioner(rng, self.table, session.mirror).random_query()
            return compare(session, query) and (query, compare(session, query))
        except drivers.SqlError:
            return None
        finally:
            session.close()

    def shrunk(self, state):
        """Leaves out changes for as long as the same question is still answered wrong."""
        kept, size, until = list(self.changes), max(1, len(self.changes) // 2), time.time() + SHRINK_SECONDS
        while size >= 1 and time.time() < until:
            at = 0
            while at < len(kept) and time.time() < until:
                fewer = kept[:at] + kept[at + size:]
                if self.still_fails(fewer, state):
                    kept = fewer
                else:
                    at += size
            size //= 2
        failure = self.still_fails(kept, state)
        text = f'reproduced by {len(kept)} of {len(self.changes)} changes:\n'
        text += '\n'.join('  ' + line for line in self.settings + [self.table.create_warp()]
                          + [change.describe() for change in kept])
        if failure:
            text += f'\n  {failure[0].sql} {failure[0].parameters}\n{failure[1]}'
        return text


if __name__ == '__main__':
    sys.exit(drivers.play(Run, 400))
