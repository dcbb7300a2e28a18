#!/usr/bin/env python3
"""Random statements on a table of texts, against brute force in Python.

usage: text_oracle.py path/to/warplite.so [seed [steps]]

After each statement searches for sequences and for words are compared with edit distances and
word sets computed here, of every row. Then the titles of shared/data, when they are there, against
answers that came with them.
"""
import json
import os
import random
import sys
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'crash'))
import common  # noqa: E402

# With marks to join or to put in order, letters in parts, and others that NFKC replaces.
LETTERS = 'aabbcdeé ßΩя ' + 'é\u0301\u0323\u0308\ufb01²\u1100\u1161\u11a8\uac00\u212bＡJ'
DATA = os.environ.get('WARPLITE_DATA', str(Path(__file__).resolve().parents[3] / 'shared' / 'data'))


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def grams(text, n):
    counts = {}
    for i in range(len(text) - n + 1):
        counts[text[i:i + n]] = counts.get(text[i:i + n], 0) + 1
    return counts


def common_grams(a, b, n):
    x, y = grams(a, n), grams(b, n)
    return sum(min(count, y.get(gram, 0)) for gram, count in x.items())


def fold(text):
    """Each character for itself, to one character."""
    return ''.join(next((f for f in (c.casefold(), c.lower()) if len(f) == 1), c) for c in text)


def compared(text, folded, form):
    """The characters by which a text is compared."""
    normal = (lambda t: unicodedata.normalize(form.upper(), t)) if form != 'none' else str
    return normal(fold(normal(text))) if folded else normal(text)


def words(text, form):
    def belongs(c):
        category = unicodedata.category(c)
        return category[0] in 'LM' or category == 'Nd'
    characters = compared(text, True, form)
    return set(''.join(c if belongs(c) else ' ' for c in characters).split(' ')) - {''}


class Oracle:
    def __init__(self, db, seed, tally):
        self.db, self.random, self.tally = db, random.Random(seed), tally
        self.rows, self.committed, self.next = {}, {}, 1
        self.n = self.random.choice((1, 2, 3))
        self.fold = seed % 2
        self.form = ('none', 'nfc', 'nfkc')[seed % 3]
        db.execute(f'CREATE VIRTUAL TABLE t USING warp(s TEXT index=ngram(n={self.n}, '
                   f'fold={self.fold}, normalize={self.form}), '
                   f'w TEXT index=words(normalize={self.form}), a INTEGER)')

    def text(self):
        rng = self.random
        if rng.random() < 0.1:
            return None
        if self.rows and rng.random() < 0.4:  # something near another one
            base = self.rows[rng.choice(list(self.rows))][0] or ''
            at = rng.randrange(len(base) + 1)
            return base[:at] + rng.choice(LETTERS) + base[at + rng.randrange(2):]
        return ''.join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 3, 8, 20, 70))))

    def step(self):
        rng, action = self.random, self.random.random()
        if action < 0.5:
            many = rng.random() < 0.1
            for _ in range(rng.randrange(200) if many else 1):
                row = (self.text(), self.text(), rng.randrange(10))
                self.db.execute('INSERT INTO t(rowid, s, w, a) VALUES (?, ?, ?, ?)',
                                (self.next, *row))
                self.rows[self.next] = row
                self.next += 1
        elif action < 0.65 and self.rows:
            rowid = rng.choice(list(self.rows))
            row = (self.text(), self.rows[rowid][1], 7)
            self.db.execute('UPDATE t SET s = ?, a = 7 WHERE rowid = ?', (row[0], rowid))
            self.rows[rowid] = row
        elif action < 0.75 and self.rows:
            rowid = rng.choice(list(self.rows))
            self.db.execute('DELETE FROM t WHERE rowid = ?', (rowid,))
            del self.rows[rowid]
        elif action < 0.8:
            self.db.execute("INSERT INTO t(t) VALUES ('optimize')")
        elif action < 0.9:
            if not self.db.in_transaction:
                self.db.execute('BEGIN')
                self.committed = dict(self.rows)
        elif self.db.in_transaction:
            if rng.random() < 0.5:
                self.db.execute('COMMIT')
            else:
                self.db.execute('ROLLBACK')
                self.rows = self.committed

    def compare(self, text):
        return compared(text, self.fold, self.form)

    def check_sequences(self):
        query, k = self.text() or 'abba', self.random.choice((1, 3, 20))
        mine = self.compare(query)
        want = sorted((edit_distance(mine, self.compare(row[0])), rowid)
                      for rowid, row in self.rows.items() if row[0] is not None)[:k]
        got = self.db.execute('SELECT distance, rowid, matches, certified, rank FROM '
                              "warp_sequence_search('t', 's', ?, ?)", (query, k)).fetchall()
        self.tally.check([(d, r) for d, r, *_ in got] == want, f'{query!r}: {got} is not {want}')
        for distance, rowid, matches, certified, _ in got:
            true = common_grams(mine, self.compare(self.rows[rowid][0]), self.n)
            self.tally.check((matches, certified) == (true, 1), f'{query!r}: row {rowid}: {matches}'
                                                                f' matches, not {true}')
        some = self.db.execute('SELECT distance, rowid, certified FROM '
                               "warp_sequence_search('t', 's', ?, ?, 2)", (query, k)).fetchall()
        if some and some[0][2]:
            self.tally.check([(d, r) for d, r, _ in some] == want,
                             f'{query!r}: {some} was certified, but is not {want}')

    def check_filter(self):
        """The k are chosen among the rows that pass."""
        k, low = self.random.choice((1, 3)), self.random.randrange(10)
        options = json.dumps({'filter': f'a >= {low} AND rowid % 3 <> 0'})
        passing = {rowid: row for rowid, row in self.rows.items() if row[2] >= low and rowid % 3}
        self.db.execute('CREATE TEMP TABLE IF NOT EXISTS asked(id, text)')
        self.db.execute('DELETE FROM asked')
        sequences, documents = [], []
        for number, query in enumerate((self.text() or 'abba', self.text() or 'ab cd')):
            self.db.execute('INSERT INTO asked VALUES (?, ?)', (number, query))
            mine = self.compare(query)
            near = sorted((edit_distance(mine, self.compare(row[0])), rowid)
                          for rowid, row in passing.items() if row[0] is not None)[:k]
            sequences += [(number, rowid, distance) for distance, rowid in near]
            mine = words(query, self.form)
            counts = sorted((-len(mine & words(row[1], self.form)), rowid)
                            for rowid, row in passing.items() if row[1] is not None)
            documents += [(number, rowid, -count) for count, rowid in counts[:k] if count]
        for sql, want in (("SELECT query_id, rowid, distance FROM warp_sequence_join('t', 's', "
                           "'SELECT id, text FROM asked', ?, NULL, ?)", sequences),
                          ("SELECT query_id, rowid, matches FROM warp_document_join('t', 'w', "
                           "'SELECT id, text FROM asked', ?, ?)", documents)):
            got = self.db.execute(sql, (k, options)).fetchall()
            self.tally.check(got == want, f'{sql} {k} {options}: {got} is not {want}')

    def check_words(self):
        query, k = self.text() or 'ab cd', self.random.choice((1, 3, 20))
        mine = words(query, self.form)
        counts = sorted((-len(mine & words(row[1], self.form)), rowid)
                        for rowid, row in self.rows.items() if row[1] is not None)
        want = [(-count, rowid) for count, rowid in counts if count][:k]
        got = self.db.execute("SELECT matches, rowid FROM warp_document_search('t', 'w', ?, ?)",
                              (query, k)).fetchall()
        self.tally.check(got == want, f'{query!r}: {got} is not {want}')


def lines(name):
    with open(os.path.join(DATA, name), encoding='utf-8') as file:
        return [line.rstrip('\n') for line in file]


def table(name):
    return [line.split('\t') for line in lines(name)[1:]]


def check_titles(db, tally):
    if not os.path.exists(os.path.join(DATA, 'titles_50k.txt')):
        print(f'skipped: no titles in {DATA}')
        return
    db.execute('CREATE VIRTUAL TABLE titles USING warp(s TEXT index=ngram(n=3), w TEXT index=words)')
    db.execute('BEGIN')
    db.executemany('INSERT INTO titles(rowid, s, w) VALUES (?, ?, ?)',
                   ((row, title, title)
                    for row, title in enumerate(lines('titles_50k.txt')[:50000])))
    db.execute('COMMIT')
    db.execute('CREATE TABLE q(id INTEGER PRIMARY KEY, text TEXT)')
    db.executemany('INSERT INTO q VALUES (?, ?)',
                   [(int(row[0]), row[-1]) for row in table('titles_edit_queries.tsv')])
    nearest = {}
    for query, row, distance in table('titles_edit_gt_top10_50k.tsv'):
        nearest.setdefault(int(query), []).append((int(row), int(distance)))
    for k, below in ((1, 200), (10, 10)):
        found = {}
        for query, row, distance in db.execute(
                'SELECT query_id, rowid, distance FROM warp_sequence_join(\'titles\', \'s\', '
                f"'SELECT id, text FROM q WHERE id < {below}', {k})"):
            found.setdefault(query, []).append((row, distance))
        for query in range(below):
            tally.check(found.get(query) == nearest[query][:k],
                        f'title {query}: {found.get(query)} is not {nearest[query][:k]}')
    common_words = {}
    for query, _, row, count in table('titles_word_gt_top100_50k.tsv'):
        common_words.setdefault(int(query), []).append((int(row), int(count)))
    for query, text in table('titles_word_queries.tsv'):
        found = db.execute("SELECT rowid, matches FROM warp_document_search('titles', 'w', ?, 100)",
                           (text,)).fetchall()
        tally.check(found == common_words[int(query)], f'words of {text!r} differ')


def main():
    extension = common.extension_path()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    tally = common.Tally()
    oracle = Oracle(common.connect(':memory:', extension), seed, tally)
    for _ in range(steps):
        oracle.step()
        oracle.check_sequences()
        oracle.check_words()
        oracle.check_filter()
    if oracle.db.in_transaction:
        oracle.db.execute('COMMIT')
    if seed == 1:
        check_titles(oracle.db, tally)
    tally.finish()


if __name__ == '__main__':
    main()
