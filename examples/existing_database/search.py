#!/usr/bin/env python3
"""Searches the library of make_library.py from Python, by what a text is about.

usage: search.py library.db text …

Makes the index when it is not there yet. Every connection that writes to books needs the extension
from then on, because the triggers of the index use it; connections that only read do not.
"""

import sqlite3
import sys
from pathlib import Path

from make_library import embed, read_words

EXTENSION = Path(__file__).resolve().parents[2] / "build" / "release" / "warplite"
INDEX = """
CREATE VIRTUAL TABLE IF NOT EXISTS books_idx USING warp(
  content=books, content_rowid=id,
  embedding FLOAT[100] distance=cosine,
  title TEXT index=ngram(n=3),
  year INTEGER
)"""
NEAREST = """
SELECT b.title, b.year, x.distance
FROM books_idx x JOIN books b ON b.id = x.rowid
WHERE x.embedding MATCH ? AND NOT b.borrowed
ORDER BY x.distance LIMIT 5"""


def connect(path):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)  # some builds of Python lack it; Debian's and Ubuntu's have it
    db.load_extension(str(EXTENSION))
    db.enable_load_extension(False)
    return db


def main():
    path, text = sys.argv[1], " ".join(sys.argv[2:]) or "storms at sea"
    db = connect(path)
    db.execute(INDEX)
    query = embed(text, read_words())

    def show(what):
        print(what)
        for title, year, distance in db.execute(NEAREST, (query,)):
            print(f"  {distance:.4f}  {title} ({year})")

    show(f"Nearest to {text!r}:")
    with db:  # what the application does every day
        db.execute("UPDATE books SET borrowed = 1 WHERE id IN (SELECT x.rowid FROM books_idx x "
                   "WHERE x.embedding MATCH ? AND k = 2)", (query,))
        db.execute("UPDATE books SET title = upper(title) WHERE id = (SELECT x.rowid FROM books_idx x "
                   "WHERE x.embedding MATCH ? AND k = 1)", (query,))
    show("When the first two are borrowed:")


if __name__ == "__main__":
    main()
