#!/usr/bin/env python3
"""Copies of a file that is being written: the backup API, VACUUM INTO, and the write-ahead log shipped as files.

usage: replicas_test.py path/to/warplite.so [seconds]

Every transaction of the writer replaces all rows of a group by rows of one new version, as in two_processes_test.py. A
copy must be undamaged, show one version of each group, and find by search what a scan finds. Statements run twice, as
rqlite replicates them, give two files that answer alike.
"""
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import threading
import time

import common
from two_processes_test import GROUP, group_rows, replace_group, snapshot_fault

SCHEMA = ('CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, '
          'e FLOAT[3] index=ivfflat(lists=4), v INTEGER, g INTEGER, +note TEXT)')


def make_file(path, extension):
    db = common.connect(path, extension)
    db.execute('PRAGMA journal_mode = WAL')
    # Whoever ships the log is the only one to checkpoint.
    db.execute('PRAGMA wal_autocheckpoint = 0')
    db.execute(SCHEMA)
    for group in (1, 2):
        replace_group(db, group, 0)
    db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()
    return db


class Writer(threading.Thread):
    """Replaces groups, and trains now and then, until it is told to stop."""

    def __init__(self, path, extension):
        super().__init__()
        self.path, self.extension, self.versions = path, extension, 0
        self.stopping, self.error = threading.Event(), None

    def run(self):
        try:
            db = common.connect(self.path, self.extension)
            db.execute('PRAGMA wal_autocheckpoint = 0')
            while not self.stopping.is_set():
                self.versions += 1
                replace_group(db, 1 + self.versions % 2, self.versions)
                time.sleep(0.002)  # so that a log is copied and checkpointed to its end now and then
                if self.versions % 9 == 0:
                    db.execute("INSERT INTO t(t) VALUES ('train')")
            db.close()
        except sqlite3.Error as error:
            self.error = error

    def finish(self):
        self.stopping.set()
        self.join()
        return self.error


def look(db):
    scan = db.execute('SELECT id, e, v, g, note FROM t ORDER BY id').fetchall()
    hits = db.execute("SELECT t.id, t.v, t.g, t.note FROM warp_knn_search('t', 'e', ?, 1000, '{\"exact\":1}') s "
                      'JOIN t ON t.id = s.rowid ORDER BY s.rank', (common.vector(0.0, 0.0, 0.0),)).fetchall()
    return scan, hits


def fault(path, extension):
    """None, or what is wrong with a copy."""
    db = common.connect(path, extension)
    try:
        return common.integrity_fault(db) or snapshot_fault(*look(db))
    except sqlite3.Error as error:
        return str(error)
    finally:
        db.close()


def versions(path, extension):
    db = common.connect(path, extension)
    found = db.execute('SELECT max(v) FROM t').fetchone()[0]
    db.close()
    return found


def back_up(source, target):
    """A few pages at a time; but SQLite begins again whenever the writer has written, so in the end all at once."""
    end = time.time() + 0.3

    def give_up(*_):
        if time.time() > end:
            raise TimeoutError

    try:
        source.backup(target, pages=7, sleep=0.001, progress=give_up)
    except TimeoutError:
        source.backup(target)


def test_copies(folder, extension, seconds, tally):
    """Copies by the backup API, a few pages at a time, and by VACUUM INTO, one after the other."""
    path = os.path.join(folder, 'copied.db')
    make_file(path, extension).close()
    writer = Writer(path, extension)
    writer.start()
    end, number = time.time() + seconds, 0
    while time.time() < end or number < 2:
        number += 1
        copy = os.path.join(folder, f'copy{number}.db')
        source = sqlite3.connect(path, isolation_level=None, timeout=30)  # without the extension
        if number % 2:
            target = sqlite3.connect(copy)
            back_up(source, target)
            target.close()
        else:
            source.execute('VACUUM INTO ?', (copy,))
        source.close()
        wrong = fault(copy, extension)
        tally.check(wrong is None, f'copy {number}: {wrong}')
        os.unlink(copy)
    error = writer.finish()
    tally.check(error is None, f'the writer failed: {error}')
    tally.check(writer.versions > 3, 'the writer wrote next to nothing')


class Shipper:
    """Ships a write-ahead log as Litestream does.

    A reader holds the log, so that nobody begins it anew; what is new in it is copied; what was copied is checkpointed.
    A log can only begin anew once all of it was checkpointed, and so was copied.
    """

    HEADER, FRAME_HEADER = 32, 24

    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.reader = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.checkpointer = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.segments = []  # one for each time that the log began anew
        self.salts = None
        self.hold()
        shutil.copyfile(path, os.path.join(folder, 'snapshot.db'))
        self.copy()

    def hold(self):
        self.reader.execute('BEGIN')
        self.reader.execute('SELECT count(*) FROM sqlite_master').fetchone()

    def copy(self):
        """Appends what was committed since to the last segment, or begins another."""
        with open(self.path + '-wal', 'rb') as log:
            header = log.read(self.HEADER)
            if len(header) < self.HEADER:
                return
            page, salts = struct.unpack('>I', header[8:12])[0], header[16:24]
            if salts != self.salts:
                self.salts = salts
                self.segments.append(bytearray(header))
            segment = self.segments[-1]
            log.seek(len(segment))
            fresh = bytearray()
            while True:
                frame = log.read(self.FRAME_HEADER + page)
                if len(frame) < self.FRAME_HEADER + page or frame[8:16] != salts:
                    return
                fresh += frame
                if struct.unpack('>I', frame[4:8])[0] != 0:  # the last one of a transaction
                    segment += fresh
                    fresh = bytearray()

    def cycle(self):
        self.reader.execute('ROLLBACK')
        self.hold()
        self.copy()
        self.checkpointer.execute('PRAGMA wal_checkpoint(PASSIVE)').fetchall()

    def close(self):
        self.reader.close()
        self.checkpointer.close()

    def restore(self, path, segments):
        shutil.copyfile(os.path.join(self.folder, 'snapshot.db'), path)
        for segment in segments:
            with open(path + '-wal', 'wb') as log:
                log.write(segment)
            db = sqlite3.connect(path, isolation_level=None)
            db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()
            db.close()


def test_shipping(folder, extension, seconds, tally):
    path, restored = os.path.join(folder, 'shipped.db'), os.path.join(folder, 'restored.db')
    keeper = make_file(path, extension)
    shipper = Shipper(path, folder)
    writer = Writer(path, extension)
    writer.start()
    end, chance = time.time() + seconds, random.Random(3)
    while time.time() < end or (len(shipper.segments) < 2 and time.time() < end + 20):
        shipper.cycle()
        time.sleep(chance.uniform(0, 0.02))
    error = writer.finish()
    tally.check(error is None, f'the writer failed: {error}')
    shipper.cycle()
    shipper.restore(restored, shipper.segments)
    wrong = fault(restored, extension)
    tally.check(wrong is None, f'all of the log: {wrong}')
    tally.check(versions(restored, extension) == writer.versions, 'the newest transaction is missing')
    tally.check(look(common.connect(restored, extension)) == look(keeper), 'the restored file answers otherwise')
    # What was shipped when the machine was lost is the file as of some commit, wherever the bytes end.
    for _ in range(6):
        kept = [bytes(segment) for segment in shipper.segments[:chance.randrange(1, len(shipper.segments) + 1)]]
        kept[-1] = kept[-1][:chance.randrange(Shipper.HEADER, len(kept[-1]) + 1)]
        shipper.restore(restored, kept)
        wrong = fault(restored, extension)
        tally.check(wrong is None, f'{len(kept)} of {len(shipper.segments)} segments: {wrong}')
    shipper.close()
    keeper.close()


def test_statements(folder, extension, tally):
    """The same statements on two files: the same answers, though not the same bytes."""
    paths = [os.path.join(folder, name) for name in ('first.db', 'second.db')]
    chance = random.Random(5)
    first, second = (common.connect(path, extension) for path in paths)

    def execute(sql, *parameters):
        for db in (first, second):
            db.execute(sql, parameters)

    execute(SCHEMA)
    for version in range(12):
        execute('BEGIN')
        execute('DELETE FROM t WHERE g = ?', version % 2)
        for row in group_rows(version % 2, version):
            execute('INSERT INTO t(id, e, v, g, note) VALUES (?, ?, ?, ?, ?)', *row)
        execute('COMMIT')
        if version % 5 == 4:
            execute("INSERT INTO t(t) VALUES ('train')")
    sql = "SELECT rowid, distance FROM warp_knn_search('t', 'e', ?, 10, '{\"nprobe\":1}')"
    for _ in range(50):
        query = common.vector(chance.uniform(0, 12), chance.uniform(0, GROUP), chance.uniform(0, 1))
        answers = [db.execute(sql, (query,)).fetchall() for db in (first, second)]
        tally.check(answers[0] == answers[1] and answers[0] != [], 'two replicas of one log answer otherwise')
    same = ['SELECT * FROM t ORDER BY id', "SELECT warp_model('t', 'e')"]
    for sql in same:
        tally.check(first.execute(sql).fetchall() == second.execute(sql).fetchall(), sql)
    first.close()
    second.close()
    contents = [open(path, 'rb').read() for path in paths]
    tally.check(contents[0] != contents[1], 'the stamps of two files are the same')


def main():
    extension = common.extension_path()
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 2.0
    tally = common.Tally()
    with tempfile.TemporaryDirectory() as folder:
        test_copies(folder, extension, seconds, tally)
        test_shipping(folder, extension, seconds, tally)
        test_statements(folder, extension, tally)
    tally.finish()


if __name__ == '__main__':
    main()
