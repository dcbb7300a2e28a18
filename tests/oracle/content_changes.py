"""Random statements on a content table, its parent and its index. {c} and {x} stand for their names."""
import random
import re

import drivers
from content_questions import Questioner
from content_tables import CONTENT_NAMES, INDEX_NAMES, named, quoted

VERBS = ('INSERT', 'INSERT', 'INSERT OR REPLACE', 'INSERT OR REPLACE', 'INSERT OR IGNORE',
         'INSERT OR FAIL', 'INSERT OR ROLLBACK')


def outcome(connection, sql, parameters):
    """None, or the error."""
    try:
        connection.execute(named(connection, sql), parameters)
        return None
    except drivers.SqlError as error:
        return str(error)


class Change:
    """A statement for both databases; both must succeed or both must fail."""

    def __init__(self, sql, parameters=()):
        self.sql, self.parameters = sql, parameters

    def apply(self, session):
        ours = outcome(session.real, self.sql, self.parameters)
        theirs = outcome(session.mirror, self.sql, self.parameters)
        if ours is not None or self.sql.startswith('ROLLBACK'):
            session.indexed = None
        if ours is None and self.sql.startswith('SAVEPOINT'):
            session.savepoints = True
        if (ours is None) != (theirs is None):
            return f'with the index: {ours}\n  without: {theirs}'
        if ours is None and self.inserts():
            last = [c.execute('SELECT last_insert_rowid() WHERE changes() > 0')
                    for c in (session.real, session.mirror)]
            if last[0] != last[1]:
                return f'last_insert_rowid() is {last[0]}, not {last[1]}'
        return session.content_difference()

    def inserts(self):
        """Whether a row that comes is certainly the last one that was inserted."""
        return self.sql.startswith(('INSERT INTO', 'INSERT OR REPLACE')) and 'CONFLICT' not in self.sql

    def describe(self):
        return f'{self.sql} {tuple(self.parameters) if self.parameters else ""}'


class Refused(Change):
    """A statement with a value that the index does not take, on one row or on none."""

    def apply(self, session):
        if session.table.manual:
            return None
        session.mirror.execute('SAVEPOINT attempt')
        before = session.mirror.execute('SELECT total_changes()')
        theirs = outcome(session.mirror, self.sql, self.parameters)
        changed = session.mirror.execute('SELECT total_changes()') != before
        session.mirror.execute('ROLLBACK TO attempt')
        session.mirror.execute('RELEASE attempt')
        if theirs is None and changed:
            ours = outcome(session.real, self.sql, self.parameters)
            if ours is None:
                return 'was not refused'
        return session.content_difference()

    def describe(self):
        return super().describe() + ' -- to be refused'


class OnIndex(Change):
    """A statement for the index alone, which must succeed."""

    def apply(self, session):
        if named(session.real, self.sql) is None:
            return None
        error = outcome(session.real, self.sql, self.parameters)
        if error is not None:
            return f'failed: {error}'
        if 'rebuild' in self.sql or 'CREATE' in self.sql:
            session.indexed = session.rows_of_index()
        return session.content_difference()


class Recreate(Change):
    """Drops the index, sees that nothing of it is left, and nothing else gone, and makes it again."""

    def __init__(self, sql):
        super().__init__(sql)

    def apply(self, session):
        # DROP TABLE is refused where a savepoint needs rows that were written before.
        if named(session.real, 'DROP TABLE {x}') is None or session.in_savepoint():
            return None
        known = ("SELECT name FROM sqlite_master WHERE name LIKE 'x%' OR (type = 'trigger' "
                 "AND name <> 'touch')")
        theirs = named(session.real, '{x}').strip('"').replace('""', '"') + '_content_insert'
        for sql in (f'DROP TRIGGER IF EXISTS {quoted(theirs)}',
                    f'CREATE TRIGGER {quoted(theirs)} AFTER INSERT ON p BEGIN SELECT 1; END',
                    'DROP TABLE {x}', f'DROP TRIGGER {quoted(theirs)}', self.sql.replace('{x}', '"x"')):
            error = outcome(session.real, sql, ())
            if error is not None:
                return f'{sql} failed: {error}'
            left = [row[0] for row in session.real.execute(known)]
            if sql.startswith('DROP TABLE') and left != [theirs]:
                return f'DROP left {left}'
        session.indexed = session.rows_of_index()
        return None

    def describe(self):
        return f'DROP TABLE {{x}}; {self.sql}'


class ByIndex(Change):
    """A change of the rows that a search finds; the mirror is told which ones those are."""

    def __init__(self, state, sql):
        super().__init__(sql)
        self.state = state

    def apply(self, session):
        if named(session.real, '{x}') is None or session.table.manual:
            return None
        rng = random.Random()
        rng.setstate(self.state)
        search = Questioner(rng, session.table, session.real).knn()
        found = ', '.join(f'({rowid})' for rowid, _ in search.expected) or '(NULL)'
        hits = search.sql.replace('rowid, distance', 'rowid', 1)
        ours = outcome(session.real, self.sql.replace('{hits}', hits), search.parameters)
        if ours is not None and drivers.refuses_old_host(ours, self.sql.replace('{hits}', hits)):
            return None
        theirs = outcome(session.mirror, self.sql.replace('{hits}', f'VALUES {found}'), ())
        if (ours is None) != (theirs is None):
            return f'{hits} {search.parameters}\n  with the index: {ours}\n  without: {theirs}'
        return session.content_difference()


class IntegrityCheck(Change):
    """Must succeed; with sync=manual, when the index has what the table has. Triggers do not tell of
    rows that make room for others: the check does, and then the index is told."""

    def __init__(self):
        super().__init__("INSERT INTO {x}({x}) VALUES ('integrity-check')")

    def apply(self, session):
        if named(session.real, self.sql) is None:
            return None
        error = outcome(session.real, self.sql, ())
        if error is not None and not session.table.manual:
            told = self.tell_of_vanished(session, error)
            if told:
                error = outcome(session.real, self.sql, ())
        expected = True
        if session.table.manual:
            if session.indexed is None:
                return None
            expected = session.indexed == session.rows_of_index()
        if (error is None) != expected:
            return f'integrity-check {"failed: " + error if error else "found nothing"}'
        return None


    def tell_of_vanished(self, session, error):
        """Of all those that the error names, if that is all it says; else False."""
        told = False
        while error is not None:
            faults = re.sub(r'; and \d+ more$', '', error).split('; ')
            gone = [re.search(r'row (-?\d+) is in the index, but no more in the content table$', fault)
                    for fault in faults]
            if not all(gone):
                return False
            for found in gone:
                row = (int(found[1]),)
                if session.real.execute(named(session.real, 'SELECT 1 FROM {c} WHERE rowid = ?'), row):
                    return False
                outcome(session.real, 'INSERT INTO {x}(rowid) VALUES (?)', row)
            told = True
            error = outcome(session.real, self.sql, ())
        return told


class Elsewhere(Change):
    """The statement on another connection of the same file, with the extension or without it."""

    def __init__(self, change, with_extension):
        super().__init__(change.sql, change.parameters)
        self.with_extension = with_extension

    def apply(self, session):
        if not session.may_write_elsewhere():
            return None
        connection = session.elsewhere(self.with_extension)
        ours = outcome(connection, self.sql, self.parameters)
        if not self.with_extension and not session.table.manual and named(session.real, 'SELECT {x}'):
            return None if ours is not None else 'was possible without the extension'
        theirs = outcome(session.mirror, self.sql, self.parameters)
        if (ours is None) != (theirs is None):
            return f'with the index: {ours}\n  without: {theirs}'
        return session.content_difference()

    def describe(self):
        where = 'with' if self.with_extension else 'without'
        return super().describe() + f' -- by another connection, {where} the extension'


class Hold:
    """Another connection begins to read and keeps its snapshot, or lets it go."""

    def apply(self, session):
        session.toggle_hold()

    def describe(self):
        return '-- another connection holds its snapshot, or lets it go'


class Reopen:
    def apply(self, session):
        session.reopen()

    def describe(self):
        return '-- close and open the file again'


class Changes:
    """Draws statements for one table."""

    def __init__(self, rng, table):
        self.rng, self.table, self.next_code = rng, table, 0

    def draw(self, session):
        self.session = session
        kinds = ((self.insert, 9), (self.insert_select, 2), (self.bulk, 1), (self.upsert, 4),
                 (self.update, 7), (self.move, 3), (self.delete, 4), (self.parent, 3), (self.by_index, 3),
                 (self.transaction, 7), (self.refused, 3), (self.rename, 2), (self.command, 4),
                 (self.connections, 4), (self.other, 2))
        kind = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        return kind()

    def rowid(self):
        rows = self.session.mirror.execute(named(
            self.session.mirror, 'SELECT rowid FROM {c} ORDER BY rowid LIMIT 1 OFFSET ?'),
            (self.rng.randint(0, 100),))
        return rows[0][0] if rows and self.rng.random() < 0.8 else self.rng.randint(-5, 150)

    def code(self):
        """Seldom one that is there already."""
        if self.rng.random() < 0.3:
            return None
        if self.rng.random() < 0.3 and self.next_code:
            return f'k{self.rng.randrange(self.next_code)}'
        self.next_code += 1
        return f'k{self.next_code}'

    def row(self):
        rowid = self.rng.choice((None, self.rowid()))
        return [rowid, self.code()] + [self.table.random_cell(self.rng, c) for c in self.table.stored]

    def names(self):
        return ', '.join(['rowid', 'code'] + [c.name for c in self.table.stored])

    def values(self, rows):
        marks = '(' + ', '.join('?' * len(rows[0])) + ')'
        return f'({self.names()}) VALUES ' + ', '.join(marks for _ in rows)

    def insert(self):
        rows = [self.row() for _ in range(self.rng.choice((1, 1, 1, 2, 5, 20)))]
        return Change(f'{self.rng.choice(VERBS)} INTO {{c}}{self.values(rows)}', sum(rows, []))

    def insert_select(self):
        columns = ', '.join(c.name for c in self.table.stored)
        return Change(f'{self.rng.choice(VERBS)} INTO {{c}}(code, {columns}) SELECT code || '
                      f"'{self.rng.choice(('a', 'b', ''))}', {columns} FROM {{c}} WHERE rowid % 5 = ? "
                      'ORDER BY rowid LIMIT 40', (self.rng.randrange(5),))

    def bulk(self):
        rows = []
        base = self.rng.choice((1000, 5000, -4000)) + self.rng.randint(0, 500)
        for i in range(self.rng.choice((30, 150))):
            rows.append([base + i, None] + self.row()[2:])
        return Change(f'INSERT OR REPLACE INTO {{c}}{self.values(rows)}', sum(rows, []))

    def upsert(self):
        rows = [self.row() for _ in range(self.rng.choice((1, 1, 3)))]
        columns = self.rng.sample(self.table.stored, self.rng.randint(1, 3))
        sets = ', '.join(f'{c.name} = excluded.{c.name}' for c in columns)
        target = self.rng.choice(('(code)',) + ((f'({self.table.key})',) if self.table.key else ()))
        action = self.rng.choice((f'{target} DO UPDATE SET {sets}', f'{target} DO UPDATE SET {sets}',
                                  f'{target} DO UPDATE SET {sets} WHERE excluded.year > 2',
                                  f'{target} DO UPDATE SET rowid = excluded.rowid, {sets}',
                                  f'{target} DO NOTHING', 'DO NOTHING'))
        return Change(f'INSERT INTO {{c}}{self.values(rows)} ON CONFLICT{action}', sum(rows, []))

    def where(self):
        a = self.rowid()
        return self.rng.choice((f'rowid = {a}', f'rowid = {a}', f'rowid BETWEEN {a} AND {a + 10}',
                                f'rowid % 7 = {a % 7}', f'owner = {a % 6}', "title LIKE 'a%'"))

    def update(self):
        verb = self.rng.choice(('UPDATE', 'UPDATE', 'UPDATE OR REPLACE', 'UPDATE OR IGNORE'))
        columns = self.rng.sample(self.table.stored, self.rng.randint(1, 2))
        sets = [f'{c.name} = ?' for c in columns]
        cells = [self.table.random_cell(self.rng, c) for c in columns]
        if self.rng.random() < 0.2:
            sets.append('code = ?')
            cells.append(self.code())
        tail = self.rng.choice(('', '', ' RETURNING rowid'))
        return Change(f'{verb} {{c}} SET {", ".join(sets)} WHERE {self.where()}{tail}', cells)

    def move(self):
        """Of the rowid, and of vectors between rows."""
        verb = self.rng.choice(('UPDATE', 'UPDATE', 'UPDATE OR REPLACE', 'UPDATE OR IGNORE'))
        vector = self.rng.choice(self.table.vectors).name
        return Change(f'{verb} {{c}} SET ' + self.rng.choice((
            f'rowid = {self.rng.randint(-5, 150)} WHERE rowid = {self.rowid()}',
            f'rowid = {self.rng.randint(-5, 150)}, title = \'moved\', {vector} = NULL '
            f'WHERE rowid = {self.rowid()}',
            f'rowid = rowid + 1 WHERE {self.where()}', f'rowid = -rowid WHERE {self.where()}',
            f'rowid = rowid + 100 WHERE {self.where()}', f'{vector} = {vector}, title = title',
            f'{vector} = (SELECT o.{vector} FROM {{c}} o ORDER BY rowid LIMIT 1) WHERE {self.where()}',
            'title = o.title FROM (SELECT max(rowid) AS r, title FROM {c}) o WHERE '
            + self.where().replace('title', '{c}.title').replace('rowid', '{c}.rowid'))))

    def delete(self):
        if self.rng.random() < 0.05:
            return Change('DELETE FROM {c}')
        tail = self.rng.choice(('', '', ' RETURNING rowid, title'))
        return Change(f'DELETE FROM {{c}} WHERE {self.where()}{tail}')

    def parent(self):
        a = self.rng.randint(1, 5)
        return Change(self.rng.choice((
            f'DELETE FROM p WHERE id = {a}', f'UPDATE p SET id = id + 5 WHERE id = {a}',
            f'REPLACE INTO p VALUES ({a}, \'again\')',
            'INSERT OR IGNORE INTO p VALUES (1, \'a\'), (2, \'b\'), (3, \'c\'), (4, \'d\'), (5, \'e\')',
            'INSERT OR IGNORE INTO p VALUES (1, \'a\'), (2, \'b\'), (3, \'c\'), (4, \'d\'), (5, \'e\')')))

    def by_index(self):
        self.rng.random()
        return ByIndex(self.rng.getstate(), self.rng.choice((
            'DELETE FROM {c} WHERE rowid IN ({hits})',
            "UPDATE {c} SET title = 'near', score = 1.5 WHERE rowid IN ({hits})",
            'UPDATE OR REPLACE {c} SET rowid = rowid + 7 WHERE rowid IN ({hits})',
            "REPLACE INTO {c}(rowid, title) SELECT rowid, 'again' FROM {c} WHERE rowid IN ({hits})")))

    def transaction(self):
        if not self.session.real.in_transaction():
            return Change(self.rng.choice(('BEGIN', 'BEGIN', 'BEGIN IMMEDIATE', 'SAVEPOINT s1')))
        return Change(self.rng.choice(('SAVEPOINT s1', 'SAVEPOINT s2', 'ROLLBACK TO s1',
                                       'ROLLBACK TO s2', 'RELEASE s1', 'RELEASE s2', 'COMMIT',
                                       'COMMIT', 'ROLLBACK')))

    def refused(self):
        column, cell = self.table.invalid_cell(self.rng)
        if self.rng.random() < 0.5:
            verb = self.rng.choice(('UPDATE', 'UPDATE OR REPLACE', 'UPDATE OR IGNORE'))
            return Refused(f'{verb} {{c}} SET {column.name} = ? WHERE rowid = {self.rowid()}', (cell,))
        row = self.row()
        row[2 + self.table.stored.index(column)] = cell
        tail = self.rng.choice(('', ' ON CONFLICT(code) DO UPDATE SET ' + f'{column.name} = excluded.'
                                f'{column.name}'))
        verb = self.rng.choice(VERBS[:5]) if not tail else 'INSERT'
        return Refused(f'{verb} INTO {{c}}{self.values([row])}{tail}', row)

    def rename(self):
        content = quoted(self.rng.choice(CONTENT_NAMES))
        index = quoted(self.rng.choice(INDEX_NAMES))
        self.next_code += 1
        column = f'extra{self.next_code}'
        changes = [OnIndexRename(f'ALTER TABLE {{x}} RENAME TO {index}'),
                   Change(f'ALTER TABLE {{c}} ADD COLUMN {column} DEFAULT 7')]
        if not self.table.manual:  # else nothing tells the index of the new name
            changes.append(Change(f'ALTER TABLE {{c}} RENAME TO {content}'))
        return self.rng.choice(changes)

    def command(self):
        commands = ['optimize', 'rebuild', 'optimize', 'rebuild'] + ['train'] * bool(self.table.learning)
        draw = self.rng.random()
        if draw < 0.4:
            return IntegrityCheck()
        if draw < 0.5:
            return Recreate(self.table.create_index())
        command = self.rng.choice(commands)
        # Training needs rows: it may say so.
        kind = OnIndex if command != 'train' else Training
        return kind(f"INSERT INTO {{x}}({{x}}) VALUES ('{command}')")

    def connections(self):
        draw = self.rng.random()
        if draw < 0.2:
            return Hold()
        if draw < 0.3:
            return Reopen()
        return Elsewhere(self.rng.choice((self.insert, self.update, self.delete, self.upsert))(),
                         self.rng.random() < 0.8)

    def other(self):
        if self.rng.random() < 0.5:
            setting = self.rng.choice(("'threads', 1", "'threads', 3", "'threads', 0",
                                       "'cpu_memory_limit', 4000", "'cpu_memory_limit', 0"))
            return OnIndex(f'SELECT warp_config({setting})')
        if not self.table.key:  # VACUUM renumbers such rowids, of any table
            return IntegrityCheck()
        return Vacuum()


class OnIndexRename(OnIndex):
    """May fail where a table of that name is there."""

    def apply(self, session):
        if named(session.real, self.sql) is None:
            return None
        outcome(session.real, self.sql, ())
        return None


class Training(OnIndexRename):
    pass


class Vacuum:
    def apply(self, session):
        if session.real.in_transaction() or session.held:
            return None
        error = outcome(session.real, 'VACUUM', ())
        return error and f'failed: {error}'

    def describe(self):
        return 'VACUUM'
