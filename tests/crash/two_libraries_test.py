#!/usr/bin/env python3
"""Several SQLite libraries in one process, all with the extension: Python's own, a copy of the system's
under another name, and apsw's where it is installed. Each does the same work, taking turns on one thread
and all at once on threads of their own, gets the answers of one that is alone, and has given back its
memory to none but itself in the end.

usage: two_libraries_test.py path/to/warplite.so [seconds]
"""
import ctypes
import ctypes.util
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time

import common

# Tables, transactions, functions, joins, commands, what fails, and names that change.
WORK = [
    'CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[4], n INTEGER, s TEXT index=words, +note)',
    """WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
       INSERT INTO t SELECT x, printf('[%d,%d,%d,1]', x % 17, x % 13, x % 11), x % 7, 'word' || (x % 5), 'n' || x FROM c""",
    "SELECT id, distance, note FROM t WHERE e MATCH '[3,5,7,1]' AND n < 5 ORDER BY distance LIMIT 12",
    'BEGIN', "INSERT INTO t VALUES (5000, '[3,5,7,1]', 1, 'new word', NULL)", 'SAVEPOINT s', 'DELETE FROM t WHERE n = 3',
    'SELECT count(*) FROM t', 'ROLLBACK TO s', 'UPDATE t SET n = n + 1 WHERE id < 100', 'COMMIT',
    "SELECT id, matches FROM t WHERE t MATCH '{\"n\":[1,2],\"s\":\"word1\"}' AND k = 9",
    "SELECT rowid, matches FROM warp_document_search('t', 's', 'new word1', 5)",
    "SELECT query_id, rowid, rank FROM warp_knn_join('t', 'e', 'SELECT id, e FROM t WHERE id < 30', 3)",
    "SELECT vec_to_json(vec_add('[1,2]', '[3,4]')), edit_distance('kitten', 'sitting'), vec_distance_l2('[0,0]', '[3,4]')",
    "SELECT vec_f32('[1,')", "SELECT * FROM warp_match_count('t', '{', 1)", "INSERT INTO t VALUES (1, NULL, NULL, NULL, NULL)",
    "INSERT INTO t(t) VALUES ('optimize')", "INSERT INTO t(t) VALUES ('integrity-check')",
    'ALTER TABLE t RENAME TO u', "SELECT id FROM u WHERE e MATCH '[1,1,1,1]' AND k = 3 AND s LIKE 'word%'",
    'CREATE TABLE docs(id INTEGER PRIMARY KEY, title TEXT)', "INSERT INTO docs VALUES (1, 'one'), (2, 'two')",
    'CREATE VIRTUAL TABLE docs_idx USING warp(id INTEGER PRIMARY KEY, title TEXT distance=edit, content=docs)',
    "UPDATE docs SET title = 'three' WHERE id = 2", "SELECT id, distance FROM docs_idx WHERE title MATCH 'tree' AND k = 2",
    'DROP TABLE docs_idx', 'DROP TABLE docs', 'DROP TABLE u', 'SELECT count(*) FROM sqlite_schema',
]


class OwnDriver:
    """Python's own."""
    name = 'sqlite3'

    def __init__(self, path, extension):
        self.db = common.connect(path, extension)

    def run(self, sql):
        try:
            return self.db.execute(sql).fetchall()
        except sqlite3.Error as error:
            return str(error)

    def close(self):
        self.db.close()


class ApswDriver:
    name = 'apsw'

    def __init__(self, path, extension):
        self.db = apsw.Connection(path)
        self.db.enable_load_extension(True)
        self.db.load_extension(extension)

    def run(self, sql):
        try:
            return list(self.db.execute(sql))
        except apsw.Error as error:
            return str(error)

    def close(self):
        self.db.close()


class CopiedLibrary:
    """Another library, called through ctypes."""
    name = 'a copy'

    def __init__(self, path, extension):
        self.lib = copied_library()
        self.db = ctypes.c_void_p()
        assert self.lib.sqlite3_open(path.encode(), ctypes.byref(self.db)) == 0
        self.lib.sqlite3_enable_load_extension(self.db, 1)
        message = ctypes.c_char_p()
        code = self.lib.sqlite3_load_extension(self.db, extension.encode(), None, ctypes.byref(message))
        assert code == 0, message.value

    def run(self, sql):
        statement = ctypes.c_void_p()
        code = self.lib.sqlite3_prepare_v2(self.db, sql.encode(), -1, ctypes.byref(statement), None)
        rows = []
        if code == 0:
            while (code := self.lib.sqlite3_step(statement)) == 100:
                rows.append(tuple(self.value(statement, i)
                                  for i in range(self.lib.sqlite3_column_count(statement))))
        message = None if code in (0, 101) else self.lib.sqlite3_errmsg(self.db).decode()
        self.lib.sqlite3_finalize(statement)
        return rows if message is None else message

    def value(self, statement, i):
        kind = self.lib.sqlite3_column_type(statement, i)
        if kind == 1:
            return self.lib.sqlite3_column_int64(statement, i)
        if kind == 2:
            return self.lib.sqlite3_column_double(statement, i)
        return None if kind == 5 else self.lib.sqlite3_column_text(statement, i).decode()

    def close(self):
        assert self.lib.sqlite3_close(self.db) == 0


def loaded_library():
    """The file that Python's module uses, or the system's."""
    with open('/proc/self/maps') as maps:
        for line in maps:
            path = line.split()[-1]
            if 'libsqlite3.so' in path:
                return path
    return ctypes.util.find_library('sqlite3')


def copied_library(cache=[]):
    if not cache:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(loaded_library(), os.path.join(folder, 'another_sqlite.so'))
            lib = ctypes.CDLL(copy)
        pointer = ctypes.c_void_p
        for name, result, arguments in [
                ('open', ctypes.c_int, [ctypes.c_char_p, pointer]), ('close', ctypes.c_int, [pointer]),
                ('enable_load_extension', ctypes.c_int, [pointer, ctypes.c_int]),
                ('load_extension', ctypes.c_int, [pointer, ctypes.c_char_p, ctypes.c_char_p, pointer]),
                ('prepare_v2', ctypes.c_int, [pointer, ctypes.c_char_p, ctypes.c_int, pointer, pointer]),
                ('step', ctypes.c_int, [pointer]), ('finalize', ctypes.c_int, [pointer]),
                ('errmsg', ctypes.c_char_p, [pointer]), ('column_count', ctypes.c_int, [pointer]),
                ('column_type', ctypes.c_int, [pointer, ctypes.c_int]),
                ('column_int64', ctypes.c_int64, [pointer, ctypes.c_int]),
                ('column_double', ctypes.c_double, [pointer, ctypes.c_int]),
                ('column_text', ctypes.c_char_p, [pointer, ctypes.c_int])]:
            function = getattr(lib, 'sqlite3_' + name)
            function.restype, function.argtypes = result, arguments
        cache.append(lib)
    return cache[0]


def memory_used():
    """Bytes that each library has allocated and not freed: what one allocates and another frees shows."""
    used = []
    for library in (ctypes.CDLL(loaded_library()), copied_library()):
        library.sqlite3_memory_used.restype = ctypes.c_int64
        used.append(library.sqlite3_memory_used())
    return used


def alone(driver, folder, extension):
    connection = driver(os.path.join(folder, 'alone.db'), extension)
    answers = [connection.run(sql) for sql in WORK]
    connection.close()
    os.remove(os.path.join(folder, 'alone.db'))
    return answers


def take_turns(tally, drivers, expected, folder, extension):
    """Statement by statement; then the first closes while the others go on, and comes back."""
    connections = [driver(os.path.join(folder, f'turns{i}.db'), extension) for i, driver in enumerate(drivers)]
    for sql, answer in zip(WORK, expected):
        for driver, connection in zip(drivers, connections):
            got = connection.run(sql)
            tally.check(got == answer, f'{driver.name}: {sql}: {got} instead of {answer}')
    for i, driver in enumerate(drivers):
        connections[i].close()
        for connection in connections[i + 1:]:
            got = connection.run("SELECT vec_length('[1,2,3]')")
            tally.check(got == [(3,)], f'after another closed: {got}')
        again = driver(':memory:', extension)
        got = [again.run(sql) for sql in WORK]
        tally.check(got == expected, f'{driver.name} again')
        again.close()


def at_once(tally, drivers, expected, seconds, extension):
    until = time.time() + seconds
    rounds = [0] * len(drivers)

    def work(i):
        while time.time() < until:
            connection = drivers[i](':memory:', extension)
            for sql, answer in zip(WORK, expected):
                got = connection.run(sql)
                if got != answer:
                    tally.check(False, f'{drivers[i].name}, at once: {sql}: {got} instead of {answer}')
            connection.close()
            rounds[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(drivers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for driver, count in zip(drivers, rounds):
        tally.check(count > 0, f'{driver.name} did nothing')
    print('rounds at once:', ', '.join(f'{d.name} {n}' for d, n in zip(drivers, rounds)))


def main():
    global apsw
    extension = common.extension_path()
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4
    drivers = [OwnDriver, CopiedLibrary]
    try:
        import apsw
        drivers.append(ApswDriver)
        print('apsw has SQLite', apsw.sqlite_lib_version())
    except ImportError:
        print('without apsw, which is not installed here')
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as folder:
        expected = alone(OwnDriver, folder, extension)
        tally.check(alone(CopiedLibrary, folder, extension) == expected, 'a copy alone')
        used = memory_used()
        take_turns(tally, drivers, expected, folder, extension)
        take_turns(tally, drivers[::-1], expected, folder, extension)
        at_once(tally, drivers * 2, expected, seconds, extension)
        tally.check(memory_used() == used, f'{memory_used()} bytes are allocated instead of {used}')
    tally.finish()


if __name__ == '__main__':
    main()
