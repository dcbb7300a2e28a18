"""How soon long work ends: every kind of statement that may take long is interrupted at several
moments, from another thread and by a progress handler. 50 ms are promised on a machine that does
nothing else; the bounds here are for one that does.

    interrupt_test.py warplite.so [words of the names of the statements to run]
"""
import array
import json
import os
import random
import sqlite3
import statistics
import struct
import sys
import tempfile
import threading
import time

MOMENTS = (0.01, 0.05, 0.15, 0.4)
SECONDS_TO_END = 0.15      # of the median
SECONDS_BETWEEN_CALLS = 0.15
STEPS = 1000               # between calls of the progress handler
PATIENCE = 0.6             # of the progress handler

rnd = random.Random(1)


def now():
    return time.time(), time.process_time()


def passed(since):
    """What passed, of time or of the processor's, whichever is less: others want the processor
    too, and several threads spend more than there is."""
    return min(b - a for a, b in zip(since, now()))


def connect(path=':memory:'):
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.enable_load_extension(True)
    db.load_extension(os.path.splitext(os.path.abspath(sys.argv[1]))[0])
    return db


class Long:
    """A statement that takes long, on tables that `prepare` makes; `again` comes before each run."""

    def __init__(self, name, prepare, sql, arguments=(), again=None):
        self.name, self.prepare, self.sql = name, prepare, sql
        self.arguments, self.again = arguments, again

    def run(self, db):
        arguments = self.arguments() if callable(self.arguments) else self.arguments
        try:
            db.execute(self.sql, arguments).fetchall()
            return 'done'
        except sqlite3.Error as error:
            return str(error)

    def begin(self, db):
        if db.in_transaction:
            db.execute('ROLLBACK')
        if self.again is not None:
            self.again(db)

    def interrupted_after(self, db, moment):
        """(seconds until it ended, what it said), or nothing when it ended before."""
        self.begin(db)
        asked, ended = [], threading.Event()

        def interrupt():
            if not ended.wait(moment):
                asked.append(now())
                db.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        said = self.run(db)
        took = passed(asked[0]) if asked else None
        ended.set()
        thread.join()
        return None if took is None else (took, said)

    def longest_gap(self, db):
        """Of time without a call of the progress handler, and how many came."""
        self.begin(db)
        begun, last, calls, gap = now(), [now()], [0], [0.0]

        def handler():
            gap[0] = max(gap[0], passed(last[0]))
            last[0] = now()
            calls[0] += 1
            return 1 if passed(begun) > PATIENCE else 0

        db.set_progress_handler(handler, STEPS)
        self.run(db)
        db.set_progress_handler(None, 0)
        return max(gap[0], passed(last[0])), calls[0]


def series(rows, value, table, columns):
    return (f'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {rows}) '
            f'INSERT INTO {table}({columns}) SELECT {value} FROM c')


def script(*statements):
    def prepare(db):
        for statement in statements:
            db.execute(statement)
    return prepare


def table(columns, rows, value, names, *more):
    return script(f'CREATE VIRTUAL TABLE t USING warp({columns})', series(rows, value, 't', names),
                  *more)


def letters(count, alphabet='0123456789ABCDEF'):
    return ''.join(rnd.choices(alphabet, k=count))


def floats(columns, rows, dim):
    def prepare(db):
        db.execute(f'CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}] {columns})')
        db.execute('BEGIN')
        for i in range(rows):
            vector = array.array('f', [rnd.random() for _ in range(dim)])
            db.execute('INSERT INTO t(rowid, e) VALUES (?, ?)', (i, vector.tobytes()))
        db.execute('COMMIT')
    return prepare


def forget(db):
    """What was read of the file goes from memory."""
    db.execute("SELECT warp_config('cpu_memory_limit', 1)").fetchall()
    db.execute("SELECT warp_config('cpu_memory_limit', 0)").fetchall()


def vectors():
    plain = table('e INT8[64], a INTEGER', 60000, 'x, randomblob(64), x', 'rowid, e, a')
    yield Long('knn_join', plain,
               "SELECT count(*) FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t', 10)")
    yield Long('knn_arrays', plain,
               "SELECT k FROM warp_knn_arrays('t', 'e', randomblob(64 * 60000), 10)")
    yield Long('range_join', plain,
               "SELECT count(*) FROM warp_range_join('t', 'e', 'SELECT rowid, e FROM t', 700)")
    yield Long('knn_graph', plain, "SELECT count(*) FROM warp_knn_graph('t', 'e', 10)")
    yield Long('kmeans', plain, "SELECT count(*) FROM warp_kmeans('t', 'e', 500, 50)")
    yield Long('maxsim', plain,
               "SELECT count(*) FROM warp_maxsim_search('t', 'e', 'a', randomblob(64 * 2000), 10)")
    yield Long('correlated knn', plain, 'SELECT count(*) FROM t AS q, t WHERE t.e MATCH q.e AND t.k = 3')
    wide = table('e INT8[256], a INTEGER, s TEXT', 100000, 'x, randomblob(256), x, hex(randomblob(10))',
                 'rowid, e, a, s')
    yield Long('cold search', wide, 'SELECT count(*) FROM t WHERE e MATCH zeroblob(256) AND a % 2 = 0',
               again=forget)
    yield Long('cold filter', wide, "SELECT count(*) FROM t WHERE e MATCH zeroblob(256) AND a > 5 AND "
               "s > 'A' AND s LIKE '%0%F%' AND k = 5", again=forget)
    yield Long('integrity', wide, "INSERT INTO t(t) VALUES ('integrity-check')", again=forget)
    yield Long('rebuild', wide, "INSERT INTO t(t) VALUES ('rebuild')")
    yield Long('optimize', wide, "INSERT INTO t(t) VALUES ('optimize')",
               again=script('BEGIN', 'DELETE FROM t WHERE rowid % 2'))
    yield Long('update', wide, 'UPDATE t SET a = a + 1')


def trained():
    for kind, column, rows in (
            ('ivfpq', 'INT8[64] index=ivfpq(lists=300, opq=1)', 21000),
            ('ivfpq of 4 bits', 'INT8[64] index=ivfpq(lists=300, bits=4)', 21000),
            ('ivfflat', 'INT8[64] index=ivfflat(lists=300)', 21000),
            ('ivfrabitq', 'INT8[64] index=ivfrabitq(lists=600)', 21000),
            ('e2lsh', 'INT8[64] index=lsh(m=500)', 30000),
            ('simhash', 'INT8[64] distance=cosine index=lsh(m=1000)', 30000)):
        learnt = table(f'e {column}', rows, 'x, randomblob(64)', 'rowid, e',
                       "INSERT INTO t(t) VALUES ('train')")
        yield Long(f'train {kind}', learnt, "INSERT INTO t(t) VALUES ('train')")
        yield Long(f'code {kind}', learnt, series(60000, 'randomblob(64)', 't', 'e'))
        yield Long(f'join {kind}', learnt,
                   "SELECT count(*) FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t', 10)")
    for kind in ('ivfflat(lists=900)', 'ivfpq(lists=900)'):
        anew = script('DROP TABLE IF EXISTS t', f'CREATE VIRTUAL TABLE t USING warp(e INT8[128] index={kind})',
                      'BEGIN', series(100000, 'randomblob(128)', 't', 'e'))
        yield Long(f'COMMIT that trains {kind}', script(), 'COMMIT', again=anew)
    for kind in ('list_of_clusters', 'sss'):
        yield Long(f'vectors {kind}', floats(f'index={kind}', 30000, 16),
                   "SELECT count(*) FROM warp_range_join('t', 'e', 'SELECT rowid, e FROM t', 0.3)")


def filters():
    rows = table('e INT8[4], s TEXT, a INTEGER, r REAL', 100000,
                 'x, randomblob(4), hex(randomblob(20)), x, x * 1.5', 'rowid, e, s, a, r')
    named = '[' + ''.join(chr(0x400 + i % 20000) for i in range(16000)) + ']*'
    many = json.dumps(list(range(0, 2000000, 2)))
    counted = 'SELECT count(*) FROM t WHERE e MATCH zeroblob(4) AND k = 5 AND '
    yield Long('GLOB', rows, counted + 's GLOB ?', (named,))
    yield Long('GLOB of a scan', rows, 'SELECT count(*) FROM t WHERE s GLOB ?', (named,))
    yield Long('GLOB of numbers', rows, counted + 'r GLOB ?', (named,))
    yield Long('GLOB of rowids', rows, counted + 'rowid GLOB ?', (named,))

    def with_long(db):
        rows(db)
        db.execute("INSERT INTO t(e, s) SELECT randomblob(4), replace(hex(zeroblob(2000000)), '0', 'a')")
    yield Long('LIKE of a long text', with_long, counted + 's LIKE ?', ('%' + 'a_' * 20000 + 'b%',))
    yield Long('IN of numbers', rows, counted + 'a IN (SELECT value FROM json_each(?))', (many,))
    yield Long('IN of texts', rows, counted + "s IN (SELECT value || 'x' FROM json_each(?))", (many,))


def texts():
    long_text = letters(6000000)
    grams = table('s TEXT index=ngram(n=3)', 100000, 'x, hex(randomblob(20))', 'rowid, s')
    yield Long('n-grams, cold', grams, "SELECT count(*) FROM warp_sequence_search('t', 's', 'ABCDEF01', 5)",
               again=forget)
    yield Long('n-grams of a long query', grams,
               "SELECT count(*) FROM warp_sequence_search('t', 's', ?, 5)", (long_text,))
    yield Long('n-grams MATCH a long query', grams,
               'SELECT count(*) FROM t WHERE s MATCH ? AND k = 5', (long_text,))
    yield Long('n-grams, joined', grams,
               "SELECT count(*) FROM warp_sequence_join('t', 's', 'SELECT rowid, s FROM t', 5)")
    marks = table('s TEXT index=ngram(n=3, normalize=nfkc, fold=1)', 1000, 'x, hex(randomblob(20))', 'rowid, s')
    yield Long('marks', marks, "SELECT count(*) FROM warp_sequence_search('t', 's', ?, 5)",
               (''.join(rnd.choices('\u0301\u0316\u0327', k=3000000)),))
    words = table('s TEXT index=words', 100000,
                  "x, hex(randomblob(2)) || ' ' || hex(randomblob(2)) || ' ' || hex(randomblob(1))", 'rowid, s')
    many_words = ' '.join('%05x' % rnd.randrange(1 << 20) for _ in range(1000000))
    yield Long('words of a long query', words,
               "SELECT count(*) FROM warp_document_search('t', 's', ?, 5)", (many_words,))
    yield Long('words MATCH a long query', words,
               'SELECT count(*), sum(matches) FROM t WHERE s MATCH ? AND k = 5', (many_words,))
    yield Long('words, joined', words,
               "SELECT count(*) FROM warp_document_join('t', 's', 'SELECT rowid, s FROM t', 5)")
    both = table('s TEXT index=words', 200000, "x, 'a b c ' || hex(randomblob(2))", 'rowid, s',
                 'CREATE VIRTUAL TABLE f USING fts5(s)', 'INSERT INTO f(rowid, s) SELECT rowid, s FROM t')
    yield Long('hybrid', both, "SELECT count(*) FROM warp_hybrid_search('t', 10, 'f', 'a OR b', 's', 'a b', "
               "'{\"filter\":\"rowid % 2\"}')")
    beside = table('e INT8[512]', 60000, 'x, randomblob(512)', 'rowid, e', 'CREATE VIRTUAL TABLE f USING fts5(s)',
                   "INSERT INTO f(rowid, s) SELECT rowid, 'a b c ' || hex(randomblob(2)) FROM t")
    yield Long('hybrid, FTS5 beside vectors', beside,
               "SELECT count(*) FROM warp_hybrid_search('t', 10, 'e', randomblob(512), 'f', 'a OR b')")
    yield Long('edit_distance()', script(), 'SELECT edit_distance(?, ?)',
               (long_text[:2000000], long_text[1000000:3000000]))
    for kind in ('', 'index=list_of_clusters', 'index=sss'):
        edits = table(f's TEXT distance=edit {kind}', 60000, 'x, hex(randomblob(10))', 'rowid, s')
        yield Long(f'edits {kind}', edits, "SELECT count(*) FROM warp_range_join('t', 's', 'SELECT rowid, s FROM t', 4)")
        yield Long(f'edits of a long query {kind}', edits, 'SELECT count(*) FROM t WHERE s MATCH ? AND k = 5',
                   (long_text[:3000000],))


def counts():
    rows = table('a INTEGER, b INTEGER, c TEXT, d REAL', 200000,
                 'x, x % 1000, random() % 100000, hex(randomblob(4)), x * 0.5', 'rowid, a, b, c, d')
    yield Long('match count, cold', rows, "SELECT count(*) FROM warp_match_count('t', "
               "'{\"a\":[1,5],\"c\":[\"AB\",\"B\"],\"d\":[5,1000]}', 10)", again=forget)
    yield Long('match count of many items', rows, "SELECT count(*) FROM warp_match_count('t', ?, 10)",
               (json.dumps({'a': [[i, i] for i in range(200000)]}),))
    yield Long('match count of many ranges', rows, "SELECT count(*) FROM warp_match_count('t', ?, 10)",
               (json.dumps({'a': [[i, i + 1] for i in range(0, 1200000, 3)]}),))
    yield Long('match count of many texts', rows, "SELECT count(*) FROM warp_match_count('t', ?, 10)",
               (json.dumps({'c': ['%08X' % i for i in range(300000)]}),))
    yield Long('match counts, joined', rows, "SELECT count(*) FROM warp_match_join('t', 'SELECT rowid, "
               "json_object(''a'', json_array(a, a + 3), ''b'', b, ''c'', c) FROM t', 10)")
    yield Long('match counts of every row', rows, "SELECT count(*) FROM t WHERE t MATCH "
               "'{\"a\":[1,500],\"d\":[1,100000]}'", again=forget)


def content():
    source = script('CREATE TABLE source(id INTEGER PRIMARY KEY, e, s TEXT)',
                    series(100000, 'x, randomblob(64), hex(randomblob(10))', 'source', 'id, e, s'))
    create = 'CREATE VIRTUAL TABLE t USING warp(e INT8[64], s TEXT, content=source)'
    yield Long('content, created', source, create)
    source_and_index = script('CREATE TABLE source(id INTEGER PRIMARY KEY, e, s TEXT)',
                              series(100000, 'x, randomblob(64), hex(randomblob(10))', 'source', 'id, e, s'),
                              create)
    yield Long('content, rebuilt', source_and_index, "INSERT INTO t(t) VALUES ('rebuild')")
    yield Long('content, checked', source_and_index, "INSERT INTO t(t) VALUES ('integrity-check')")
    yield Long('content, cold', source_and_index, "SELECT count(*) FROM t WHERE e MATCH zeroblob(64) AND s > 'A' AND k = 5",
               again=forget)


def files():
    path = os.path.join(tempfile.mkdtemp(), 'vectors.u8bin')
    with open(path, 'wb') as out:
        out.write(struct.pack('<ii', 1000000, 64))
        for _ in range(64):
            out.write(os.urandom(1000000))
    yield Long('vectors_file', script(), 'SELECT count(*) FROM warp_vectors_file(?)', (path,))
    os.remove(path)
    os.rmdir(os.path.dirname(path))


class Prepared:
    """Copies of a database that the statements of one table begin with, which is made once."""

    def __init__(self):
        self.prepare, self.db = None, None

    def copy(self, prepare):
        if prepare is not self.prepare:
            self.prepare, self.db = prepare, connect()
            prepare(self.db)
        copy = connect()
        self.db.backup(copy)
        return copy


def check(long, words, prepared):
    if words and not any(word in long.name for word in words):
        return True
    db = prepared.copy(long.prepare)
    ends = []
    for moment in MOMENTS:
        result = long.interrupted_after(db, moment)
        if result is None:
            break
        took, said = result
        if not said.endswith('interrupted') and said != 'done':
            print(f'FAILED: {long.name}: {said}')
            return False
        ends.append(took)
    gap, calls = long.longest_gap(db)
    if db.in_transaction:
        db.execute('ROLLBACK')
    db.close()
    median = statistics.median(ends) if ends else 0
    holds = median <= SECONDS_TO_END and gap <= SECONDS_BETWEEN_CALLS
    print('%s%-36s ends after %s ms; %d calls, %.0f ms between two at most' %
          ('' if holds else 'FAILED: ', long.name,
           ' '.join('%.0f' % (1000 * end) for end in ends) or '-', calls, 1000 * gap), flush=True)
    return holds


def main():
    words, prepared = sys.argv[2:], Prepared()
    held = [check(long, words, prepared)
            for kinds in (filters, vectors, trained, texts, counts, content, files)
            for long in kinds()]
    print(f'{sum(held)} of {len(held)} in time')
    sys.exit(0 if all(held) else 1)


main()
