#!/usr/bin/env python3
"""An application's database as one finds it: a library of books, made without Warplite.

usage: make_library.py library.db

Plain Python, plain tables. Each book has an embedding, a BLOB of float32 values: here the mean of
the vectors of the words in its title (GloVe, examples/data).
"""

import random
import sqlite3
import sys
from array import array
from operator import mul
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"
BOOKS = 5000
DIMENSIONS = 100
SUBJECTS = (
    "music ocean winter computer kitchen garden railway medicine painting football physics "
    "desert kingdom justice journey language bridge weather horse economy"
).split()
PATTERNS = (
    "The {} of {}", "{} and {}", "A {} for the {}", "{}, {} and {}", "The last {}", "{} in the {}",
    "On {}", "Letters about {} and {}", "{} without {}", "Between {} and {}",
)
SCHEMA = """
CREATE TABLE authors(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE books(
  id        INTEGER PRIMARY KEY,
  isbn      TEXT UNIQUE,
  title     TEXT NOT NULL,
  year      INTEGER,
  author    INTEGER REFERENCES authors(id) ON DELETE CASCADE,
  borrowed  INTEGER NOT NULL DEFAULT 0,
  embedding BLOB
);
"""


def read_words():
    """{word: its 100 numbers}, the most frequent first."""
    words = (DATA / "glove10k_words.txt").read_text(encoding="utf-8").splitlines()
    vectors = {}
    with open(DATA / "glove10k.fvecs", "rb") as file:
        for word in words:
            file.seek(4, 1)  # the dimension, in front of every vector
            vectors[word] = array("f")
            vectors[word].fromfile(file, DIMENSIONS)
    return vectors


def embed(text, vectors):
    """What an application's model would do: a text's embedding as a BLOB."""
    known = [vectors[w] for w in text.lower().replace(",", "").split() if w in vectors]
    known = known or [array("f", [0.0] * DIMENSIONS)]
    return array("f", (sum(column) / len(known) for column in zip(*known))).tobytes()


def words_of_subject(subject, vectors):
    """The 60 words that are used with it most."""
    query = vectors[subject]
    names = [w for w in list(vectors)[300:] if w.isalpha() and len(w) > 3]
    return sorted(names, key=lambda w: -sum(map(mul, query, vectors[w])))[:60]


def make_books(vectors, rng):
    subjects = [words_of_subject(subject, vectors) for subject in SUBJECTS]
    for i in range(1, BOOKS + 1):
        pattern = rng.choice(PATTERNS)
        title = pattern.format(*rng.sample(rng.choice(subjects), pattern.count("{}")))
        title = title[0].upper() + title[1:]
        isbn = f"978-0-{i:06d}"
        yield i, isbn, title, rng.randint(1950, 2025), rng.randint(1, 400), embed(title, vectors)


def main():
    rng, vectors = random.Random(1), read_words()
    with sqlite3.connect(sys.argv[1]) as db:
        db.executescript(SCHEMA)
        db.executemany("INSERT INTO authors VALUES (?, ?)",
                       [(i, f"Author {i}") for i in range(1, 401)])
        db.executemany("INSERT INTO books(id, isbn, title, year, author, embedding) "
                       "VALUES (?, ?, ?, ?, ?, ?)", make_books(vectors, rng))
    print(f"{sys.argv[1]}: {BOOKS} books")


if __name__ == "__main__":
    main()
