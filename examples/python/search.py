#!/usr/bin/env python3
"""Similarity search from Python's own sqlite3 module; nothing else is needed.

Run it after examples/quickstart.sh:  python3 examples/python/search.py [word]
"""

import sqlite3
import sys
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else "ocean"
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)  # some builds of Python lack it; Debian's and Ubuntu's have it
    db.load_extension(str(ROOT / "build" / "release" / "warplite"))
    db.enable_load_extension(False)

    db.execute(
        "CREATE VIRTUAL TABLE words USING warp(embedding FLOAT[100] distance=cosine, word TEXT)"
    )
    words = (ROOT / "examples/data/glove10k_words.txt").read_text(encoding="utf-8").splitlines()
    vectors = array("f")
    with open(ROOT / "examples/data/glove10k.fvecs", "rb") as file:
        for _ in words:
            file.seek(4, 1)  # the dimension, in front of every vector
            vectors.fromfile(file, 100)

    # A vector is a BLOB of little-endian float32 values: array('f').tobytes(), or numpy's
    # array.astype('<f4').tobytes(). JSON text such as '[0.1, 0.2, …]' will do as well.
    rows = (
        (i + 1, vectors[100 * i : 100 * i + 100].tobytes(), word) for i, word in enumerate(words)
    )
    with db:  # one transaction
        db.executemany("INSERT INTO words(rowid, embedding, word) VALUES (?, ?, ?)", rows)

    query = db.execute("SELECT embedding FROM words WHERE word = ?", (word,)).fetchone()
    if query is None:
        sys.exit(f"{word!r} is not among the words")
    nearest = db.execute(
        "SELECT word, distance FROM words WHERE embedding MATCH ? AND word <> ? "
        "ORDER BY distance LIMIT 5",
        (query[0], word),
    )
    for neighbour, distance in nearest:
        print(f"{neighbour:16} {distance:.4f}")


if __name__ == "__main__":
    main()
