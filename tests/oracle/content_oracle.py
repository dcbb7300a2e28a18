#!/usr/bin/env python3
"""Random statements on ordinary tables with an index over them (content=), compared with brute force.

usage: content_oracle.py path/to/warplite.so [seed [steps [path-to-trace]]]

A mirror, in memory, gets the same statements without the index: whatever succeeds or fails there must do
so here, and leave the same table. After each statement random questions to the index are compared with
answers computed from the content table, on every connection that is open. On a difference it prints the
shortest list of steps found that still shows one. A trace file gets every step before it runs.
"""
import os
import random
import sys
import tempfile
import time

import drivers
from content_changes import Changes
from content_questions import Questioner
from content_tables import ContentTable, named

SHRINK_SECONDS = 30


class Session:
    """The table with its index, and its mirror."""

    def __init__(self, driver, extension, table, path, settings):
        self.driver, self.extension, self.table, self.path = driver, extension, table, path
        self.settings = settings
        self.real = self.connect(True)
        self.mirror = driver(':memory:')
        self.mirror.execute(settings[-1])
        self.others, self.held, self.indexed, self.savepoints = {}, False, None, False
        for sql in table.create_content():
            self.real.execute(sql)
            self.mirror.execute(sql)

    def connect(self, with_extension):
        connection = self.driver(self.path, self.extension if with_extension else None)
        for sql in self.settings:
            connection.execute(sql)
        return connection

    def in_savepoint(self):
        """Perhaps: since one was begun."""
        self.savepoints = self.savepoints and self.real.in_transaction()
        return self.savepoints

    def on_file(self):
        return self.path != ':memory:'

    def may_write_elsewhere(self):
        return self.on_file() and not self.real.in_transaction() and not self.held

    def elsewhere(self, with_extension):
        if with_extension not in self.others:
            self.others[with_extension] = self.connect(with_extension)
        return self.others[with_extension]

    def toggle_hold(self):
        if not self.on_file() or 'wal' not in self.settings[0]:
            return
        other = self.elsewhere(True)
        if self.held:
            other.execute('COMMIT')
        else:
            other.execute('BEGIN')
            other.execute('SELECT count(*) FROM sqlite_master')
        self.held = not self.held

    def close_others(self):
        if self.held:
            self.toggle_hold()
        for connection in self.others.values():
            connection.close()
        self.others = {}

    def reopen(self):
        if not self.on_file() or self.real.in_transaction():
            return
        self.close_others()
        self.real.close()
        self.real = self.connect(True)

    def content_difference(self):
        answers = []
        for connection in (self.real, self.mirror):
            answers.append([tuple(map(tuple, connection.execute(named(connection, sql)))) for sql in (
                'SELECT rowid, * FROM {c} ORDER BY rowid', 'SELECT * FROM p ORDER BY id')])
        if answers[0] == answers[1]:
            return None
        if self.real.in_transaction() != self.mirror.in_transaction():
            return 'only one of the two is still in a transaction'
        return f'the content table differs\n  with the index {answers[0]}\n  without {answers[1]}'

    def rows_of_index(self):
        """What the index should hold of the content table."""
        names = ', '.join(c.name for c in self.table.columns if c not in self.table.aux)
        return self.real.execute(named(self.real, f'SELECT rowid, {names} FROM {{c}} ORDER BY rowid'))

    def close(self):
        self.close_others()
        self.real.close()
        self.mirror.close()


class Ask:
    """A question, drawn again from the same state of the generator when steps are left out."""

    def __init__(self, state, elsewhere):
        self.state, self.elsewhere, self.sql = state, elsewhere, ''

    def apply(self, session):
        connection = session.real
        if self.elsewhere and session.on_file() and (session.held or not session.real.in_transaction()):
            connection = session.elsewhere(True)
        if named(connection, '{x}') is None or named(connection, '{c}') is None:
            return None
        if session.table.manual and (connection is not session.real or session.indexed is None
                                     or session.indexed != session.rows_of_index()):
            return self.ask_outdated(session, connection)
        rng = random.Random()
        rng.setstate(self.state)
        question = Questioner(rng, session.table, connection).draw()
        self.sql = f'{question.sql} {question.parameters}'
        return compare(connection, question)

    def ask_outdated(self, session, connection):
        """With sync=manual, until the next rebuild: rows that are gone do not come."""
        if session.rng_of_manual.random() < 0.7:
            return None
        sql = 'SELECT rowid FROM {x} WHERE rowid NOT IN (SELECT rowid FROM {c})'
        self.sql = named(connection, sql)
        try:
            gone = connection.execute(self.sql)
        except drivers.SqlError:
            return None  # what was written there meanwhile may be no vector
        return f'rows that are gone: {gone}' if gone else None

    def describe(self):
        return self.sql + (' -- by another connection' if self.elsewhere else '')


def compare(connection, question):
    """A complaint about the answer, or None."""
    try:
        got = [tuple(row) for row in connection.execute(question.sql, question.parameters)]
    except drivers.SqlError as error:
        if drivers.refuses_old_host(str(error), question.sql):
            return None
        return f'  got the error: {error}\n  expected: {question.expected[:20]}'
    expected = question.expected
    if not question.ordered:
        got, expected = sorted(got), sorted(expected)
    if got == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b),
              min(len(got), len(expected)))
    return (f'  {len(got)} rows, expected {len(expected)}; they differ at row {at}:\n'
            f'  got      {got[at:at + 6]}\n  expected {expected[at:at + 6]}')


class Run:
    def __init__(self, driver, extension, seed, trace):
        self.rng = random.Random(seed)
        self.driver, self.extension, self.trace, self.seed = driver, extension, trace, seed
        self.table = ContentTable(self.rng)
        self.directory = tempfile.mkdtemp(prefix='warplite-content-')
        self.on_file = self.rng.random() < 0.7
        self.settings = [self.rng.choice(('PRAGMA journal_mode = wal', 'PRAGMA journal_mode = delete')),
                         'PRAGMA synchronous = off',
                         self.rng.choice(('PRAGMA recursive_triggers = off',
                                          'PRAGMA recursive_triggers = on')),
                         'PRAGMA foreign_keys = on']
        self.rows_before = self.rng.choice((0, 0, 5, 300))
        self.steps, self.sessions = [], 0

    def session(self):
        """Some rows are there before the index is made."""
        self.sessions += 1
        path = os.path.join(self.directory, f'{self.sessions}.db') if self.on_file else ':memory:'
        session = Session(self.driver, self.extension, self.table, path, self.settings)
        session.mirror.execute(self.settings[2])
        session.rng_of_manual = random.Random(1)
        rng = random.Random(self.seed)
        for connection in (session.real, session.mirror):
            connection.execute("INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
        for _ in range(self.rows_before):
            row = [self.table.random_cell(rng, c) for c in self.table.stored]
            names = ', '.join(c.name for c in self.table.stored)
            for connection in (session.real, session.mirror):
                connection.execute(f'INSERT INTO c({names}) VALUES ({", ".join("?" * len(row))})', row)
        session.real.execute(self.create_index())
        session.indexed = session.rows_of_index()
        return session

    def create_index(self):
        return self.table.create_index().replace('{c}', 'c').replace('{x}', 'x')

    def note(self, text):
        if self.trace:
            self.trace.write(text + '\n')
            self.trace.flush()

    def attempt(self, session, step):
        self.steps.append(step)
        if not isinstance(step, Ask):
            self.note(step.describe())
        complaint = step.apply(session)
        if isinstance(step, Ask):
            self.note(step.describe())
        return complaint

    def run(self, steps):
        """How many questions were answered right, and a complaint about the first that was not."""
        session, answered = self.session(), 0
        self.note('\n'.join(self.table.create_content() + [self.create_index()]))
        changes = Changes(self.rng, self.table)
        for _ in range(steps):
            changed = changes.draw(session)
            asks = [Ask(self.rng.getstate(), False)]
            for _ in range(self.rng.randint(0, 2)):
                self.rng.random()
                asks.append(Ask(self.rng.getstate(), self.rng.random() < 0.4))
            for step in [changed] + asks:
                complaint = self.attempt(session, step)
                if complaint:
                    session.close()
                    return answered, f'{step.describe()}\n{complaint}\n' + self.shrunk()
                answered += isinstance(step, Ask)
        session.close()
        return answered, None

    def failure(self, steps):
        """The first step that complains, and its complaint; None when all goes well."""
        session = self.session()
        try:
            for i, step in enumerate(steps):
                complaint = step.apply(session)
                if complaint:
                    return i, complaint
            return None
        except drivers.SqlError:
            return None
        finally:
            session.close()

    def shrunk(self):
        """Leaves out steps for as long as something is still wrong."""
        kept, until = list(self.steps), time.time() + SHRINK_SECONDS
        size = max(1, len(kept) // 2)
        while size >= 1 and time.time() < until:
            at = 0
            while at < len(kept) and time.time() < until:
                fewer = kept[:at] + kept[at + size:]
                found = self.failure(fewer)
                if found:
                    kept = fewer[:found[0] + 1]
                else:
                    at += size
            size //= 2
        found = self.failure(kept)
        lines = self.settings + self.table.create_content()
        lines += [f'-- {self.rows_before} rows'] * bool(self.rows_before) + [self.create_index()]
        lines += [step.describe() for step in kept]
        text = '\n'.join('  ' + line for line in lines)
        return (f'reproduced by {len(kept)} of {len(self.steps)} steps:\n{text}\n'
                f'{found[1] if found else "  (not every time)"}')


if __name__ == '__main__':
    sys.exit(drivers.play(Run, 300))
