#!/usr/bin/env python3
"""Training in a COMMIT: what the host's log hears of it, and warp_config('training_seconds').

usage: training_seconds_test.py path/to/warplite.so
"""
import ctypes
import sqlite3
import time

import common

LOG = 16  # SQLITE_CONFIG_LOG
NOTICE = 27
heard = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def hear(_, code, text):
    if code == NOTICE:
        heard.append(text.decode())


def listen():
    """Before the first connection; of the library that Python's sqlite3 uses."""
    with open('/proc/self/maps', encoding='ascii', errors='replace') as maps:
        paths = [line.split()[-1] for line in maps if 'libsqlite3' in line]
    library = ctypes.CDLL(paths[0] if paths else None)
    library.sqlite3_shutdown()
    assert library.sqlite3_config(LOG, hear, None) == 0
    library.sqlite3_initialize()


def notices():
    found, heard[:] = list(heard), []
    return found


def connect(path=':memory:'):
    db = common.connect(path, common.extension_path())
    db.execute("SELECT warp_config('device', 'cpu'), warp_config('threads', 1)")
    return db


def fill(db, rows, dim):
    db.execute('BEGIN')
    db.execute(f'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {rows}) '
               f'INSERT INTO t(e) SELECT randomblob({dim}) FROM c')
    begin = time.time()
    db.execute('COMMIT')
    return time.time() - begin


def trained(db):
    db.execute('SELECT rowid FROM t WHERE e MATCH (SELECT e FROM t LIMIT 1) AND k = 3').fetchall()
    return 'approximate index' in db.execute('SELECT * FROM warp_explain()').fetchone()


def announced(tally):
    db = connect()
    db.execute('CREATE VIRTUAL TABLE t USING warp(e INT8[16] index=ivfflat(lists=40))')
    notices()
    fill(db, 20000, 16)
    said = notices()
    tally.check(len(said) == 2, f'two notices, not {said}')
    tally.check(said[0] == 'warp: main.t.e: training on 20000 rows, 40 lists', said[0])
    tally.check(said[1].startswith('warp: main.t.e: trained in ') and said[1].endswith(' ms'), said[1])
    db.execute("INSERT INTO t(t) VALUES ('train')")
    tally.check(len(notices()) == 2, "'train' is announced as well")
    db.execute("INSERT INTO t(e) VALUES (randomblob(16))")
    tally.check(notices() == [], 'a row more is no training')


def never(tally):
    db = connect()
    db.execute('CREATE VIRTUAL TABLE t USING warp(e INT8[16] index=ivfflat(lists=40))')
    db.execute("SELECT warp_config('training_seconds', 0)")
    fill(db, 20000, 16)
    tally.check(notices() == [] and not trained(db), '0: no COMMIT trains')
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    tally.check(len(notices()) == 2 and trained(db), "'optimize' does what waits")
    fill(db, 20000, 16)
    tally.check(notices() == [], 'nor does a later one')
    db.execute("SELECT warp_config('training_seconds', 30)")


def method(db):
    db.execute('SELECT rowid FROM t WHERE e MATCH (SELECT e FROM t LIMIT 1) AND k = 3').fetchall()
    return db.execute('SELECT method FROM warp_explain()').fetchone()[0]


def bounded(tally):
    db = connect()
    # A rotation of 512 dimensions takes a core seconds, of however few rows.
    db.execute('CREATE VIRTUAL TABLE t USING warp(e INT8[512] index=ivfpq(lists=40, opq=1))')
    db.execute("SELECT warp_config('training_seconds', 1)")
    took = fill(db, 15000, 512)
    said = notices()
    tally.check(len(said) == 5 and 'training ended after' in said[1] and ' lists, from 1875 of them' in said[2] and
                'training ended after' in said[3] and 'training_seconds, 1' in said[4],
                f'it says that there was no time: {said}')
    tally.check(took < 6, f'COMMIT took {took:.1f} s')
    tally.check(not trained(db), 'nothing was learnt')
    tally.check(method(db) == "brute force (not trained: it took longer than training_seconds; "
                "INSERT INTO t(t) VALUES('train') learns now)", f'"{method(db)}" says why')
    tally.check(db.execute('SELECT count(*) FROM t').fetchone()[0] == 15000, 'the rows are kept')
    fill(db, 2000, 512)
    tally.check(notices() == [], 'it is not tried again at once')
    fill(db, 10000, 512)
    said = notices()
    tally.check('training on' in said[0], f'but when there are a quarter more: {said}')
    db.execute("SELECT warp_config('training_seconds', 30)")
    fill(db, 9000, 512)
    tally.check(trained(db) or 'training on' in notices()[0], 'and once there is more time')


def fewer(tally):
    db = connect()
    db.execute('CREATE VIRTUAL TABLE t USING warp(e INT8[384] index=approximate)')
    db.execute("SELECT warp_config('training_seconds', 1)")
    took = fill(db, 60000, 384)
    said = notices()
    tally.check(trained(db), f'in a second, an index learns from as many rows as it can: {said}, {took:.1f} s')
    tally.check(len(said) == 2 or ' of them' in said[-2], f'it says from how many: {said}')
    db.execute("SELECT warp_config('training_seconds', 30)")


def drifted(tally):
    db = connect()
    db.execute('CREATE VIRTUAL TABLE t USING warp(e INT8[16] index=ivfflat(lists=64, nprobe=4))')
    # A byte of twelve has few values at first; later all do.
    few = "unhex(substr(hex(randomblob(4)), 1, 8) || replace(hex(zeroblob(12)), '00', '01'))"
    if not db.execute("SELECT 1 FROM pragma_function_list WHERE name = 'unhex'").fetchone():
        db.create_function('unhex', 1, bytes.fromhex)
    db.execute(f'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000) '
               f'INSERT INTO t(e) SELECT {few} FROM c')
    db.execute("INSERT INTO t(t) VALUES ('train')")
    notices()
    db.execute("SELECT warp_config('training_seconds', 0)")
    fill(db, 5000, 16)
    tally.check(notices() == [], '0: no COMMIT measures')
    db.execute("SELECT warp_config('training_seconds', 30)")
    fill(db, 20000, 16)
    said = notices()
    tally.check(len(said) == 1 and "VALUES('optimize') has it learn again" in said[0], f'recall fell: {said}')
    db.execute("SELECT warp_config('training_seconds', 0)")
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    said = notices()
    tally.check(not any('training on' in one for one in said), f"0: 'optimize' does not learn again: {said}")
    db.execute("SELECT warp_config('training_seconds', 30)")
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    said = notices()
    tally.check(any('training on 30000 rows' in one for one in said), f"'optimize' learns again: {said}")
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    tally.check(notices() == [], 'and then has nothing to do')


def main():
    listen()
    tally = common.Tally()
    for body in (announced, never, bounded, fewer, drifted):
        body(tally)
    tally.finish()


main()
