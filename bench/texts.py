#!/usr/bin/env python3
"""Search of texts through SQL: sequences by 3-grams, documents by words.

    bench/texts.py --build build/release --titles titles_50k.txt [--rows 5000000] [--device auto]

Rows are titles of the file, over and over, each time with their words in another order and one word
of another title. Queries are titles of the table with a fifth of their characters changed. Prints
one JSON line a case: the first search, which makes the postings; one query; 1,024 in a batch.

With --accuracy instead: how many of 1,024 queries find the nearest text among K candidates, as tables VI and
VII of GENIE (Zhou et al.) have it. Texts are the first 40 characters of the titles that have as many.
"""

import argparse
import random
import sqlite3
import time
from pathlib import Path

from record import report, timed

QUERIES = 1024
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def rows_of(titles, rows, rng):
    split = [title.split() for title in titles]
    for rowid in range(rows):
        words = split[rowid % len(split)]
        if rowid >= len(split):
            at = rng.randrange(len(words) or 1)
            words = words[at:] + words[:at]
            words[-1:] = rng.choice(split)[:1]
        text = " ".join(words)
        yield rowid, text, text


def changed(title, rng, part=0.2):
    text = list(title)
    for at in rng.sample(range(len(text)), int(len(text) * part)):
        text[at] = rng.choice(LETTERS)
    return "".join(text)


def open_database(options):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('device', ?)", (options.device,))
    return db


def accuracy(db, titles, rng):
    texts = [title[:40] for title in titles if len(title) >= 40]
    db.execute("CREATE VIRTUAL TABLE t USING warp(s TEXT index=ngram(n=3))")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t(s) VALUES (?)", [(text,) for text in texts])
    db.execute("COMMIT")
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, text TEXT)")
    search = ("SELECT query_id, distance, certified FROM "
              "warp_sequence_join('t', 's', 'SELECT id, text FROM q', 1{})")
    for part in (0.1, 0.2, 0.3, 0.4):
        db.execute("DELETE FROM q")
        db.executemany("INSERT INTO q(text) VALUES (?)",
                       [(changed(text, rng, part),) for text in rng.sample(texts, QUERIES)])
        true = {query: distance for query, distance, _ in db.execute(search.format(""))}
        for candidates in (8, 16, 32, 64, 128, 256):
            found = db.execute(search.format(f", {candidates}")).fetchall()
            right = sum(distance == true[query] for query, distance, _ in found)
            wrong = sum(certified and distance != true[query]
                        for query, distance, certified in found)
            report("accuracy", rows=len(texts), modified=part, candidates=candidates,
                   nearest_found=right / len(true), certified=sum(c for *_, c in found) / len(true),
                   certified_and_wrong=wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--titles", required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--accuracy", action="store_true")
    options = parser.parse_args()
    rng = random.Random(1)
    titles = Path(options.titles).read_text(encoding="utf-8").split("\n")[:-1]
    db = open_database(options)
    if options.accuracy:
        accuracy(db, titles, rng)
        return
    db.execute("CREATE VIRTUAL TABLE t USING warp(s TEXT index=ngram(n=3), w TEXT index=words)")
    begin = time.time()
    db.execute("BEGIN")
    db.executemany("INSERT INTO t(rowid, s, w) VALUES (?, ?, ?)",
                   rows_of(titles, options.rows, rng))
    db.execute("COMMIT")
    report("insert", seconds=time.time() - begin, rows=options.rows)
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, text TEXT)")
    picked = [db.execute("SELECT rowid, s FROM t WHERE rowid = ?",
                         (rng.randrange(options.rows),)).fetchone() for _ in range(QUERIES)]
    db.executemany("INSERT INTO q VALUES (?, ?)",
                   [(rowid, changed(title, rng)) for rowid, title in dict(picked).items()])
    texts = [row[0] for row in db.execute("SELECT text FROM q")]
    for name, one, batch in (
        ("sequences, k = 1, 32 candidates",
         "SELECT rowid FROM warp_sequence_search('t', 's', ?, 1, 32)",
         "SELECT query_id, rowid, certified FROM "
         "warp_sequence_join('t', 's', 'SELECT id, text FROM q', 1, 32)"),
        ("documents, k = 100", "SELECT rowid FROM warp_document_search('t', 'w', ?, 100)",
         "SELECT query_id, rowid, 1 FROM "
         "warp_document_join('t', 'w', 'SELECT id, text FROM q', 100)"),
    ):
        begin = time.time()
        db.execute(one, (texts[0],)).fetchall()
        report(name, first_search_seconds=time.time() - begin)
        time.sleep(3)  # a device is filled
        numbers = iter(range(10_000))
        single = timed(lambda: db.execute(one, (texts[next(numbers) % len(texts)],)).fetchall(), 50)
        report(name, one_query_ms=single)
        found = db.execute(batch).fetchall()
        time.sleep(3)
        report(name, queries=len(texts), batch_ms=timed(lambda: db.execute(batch).fetchall(), 5),
               rows=len(found), found=sum(query == row for query, row, _ in found) / len(texts),
               certified=sum(certified for *_, certified in found) / len(found))
    report("devices", rows=[list(row) for row in db.execute("SELECT * FROM warp_devices()")])


if __name__ == "__main__":
    main()
