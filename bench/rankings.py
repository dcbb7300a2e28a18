#!/usr/bin/env python3
"""One ranking of several searches beside the searches themselves, and documents of several vectors, by SQL.

    bench/rankings.py --build build/release [--rows 1000000] [--documents 5000] [--threads 2] [--parts hybrid,maxsim]

hybrid: rows with a vector of 128 dimensions, made around 1,000 centres, a sparse vector (bench/sparse.py), and 12
words, drawn by how often real titles have them (shared/data/titles_50k.txt, or made words where that is missing), in
an FTS5 table and in a column with index=words. Queries are vectors near rows, 40 terms, and a word or three of a title.
For each set of sources the milliseconds of each alone, asked for its first 100 rows, and of warp_hybrid_search;
medians over the queries, which take turns. FTS5 alone is a hybrid search of it alone: its own ORDER BY sorts what
matches, and takes longer.

maxsim: documents of 128 vectors of 128 dimensions, queries of 32. All documents scored; 100 of them, by the option
documents; and the 10 best by nominees of an approximate index, with the recall of these. Beside NumPy's float32.
Prints one JSON line for each.
"""

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import sparse

from record import report

DIM, TOKENS, DOCUMENT = 128, 32, 128
TITLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "titles_50k.txt"


def connect(build, threads):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(build) / "warplite"))
    db.execute("SELECT warp_config('threads', ?)", (threads,))
    db.execute("SELECT warp_config('device', 'cpu')")
    return db


def timed(db, sql, arguments):
    begin = time.perf_counter()
    rows = db.execute(sql, arguments).fetchall()
    return 1000 * (time.perf_counter() - begin), rows


def clustered(rng, rows, spread=0.6):
    centres = rng.standard_normal((1000, DIM), dtype=np.float32)
    out = centres[rng.integers(len(centres), size=rows)]
    out += spread * rng.standard_normal(out.shape, dtype=np.float32)
    return out


def load_vectors(db, table, vectors, columns=""):
    """Inserts the vectors under rowids from 0, in one transaction."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.npy")
        np.save(path, vectors)
        db.execute(f"INSERT INTO {table} SELECT rowid, vector{columns} FROM warp_vectors_file(?)", (path,))


def titles(rng):
    if TITLES.exists():
        return TITLES.read_text(encoding="utf-8").lower().split("\n")
    words = [f"w{i}" for i in range(30_000)]
    weights = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), size=(50_000, 12), p=weights / weights.sum())
    return [" ".join(words[i] for i in row) for row in drawn]


def make_texts(rng, rows):
    known = titles(rng)
    words = np.array([w for title in known for w in title.split() if w.isalnum()])
    drawn = words[rng.integers(len(words), size=(rows, 12))]
    queries = [w for w in (sorted(set(filter(str.isalnum, title.split())))[:3] for title in known) if len(w) == 3]
    return [" ".join(row) for row in drawn], queries


def hybrid(options):
    rng = np.random.default_rng(1)
    db = connect(options.build, options.threads)
    vectors = clustered(rng, options.rows)
    texts, words = make_texts(rng, options.rows)
    weights = sparse.zipf_rows(options.rows, 120, rng, by_rarity=True)
    db.execute("CREATE TABLE texts(id INTEGER PRIMARY KEY, body TEXT)")
    db.execute("CREATE TABLE weights(id INTEGER PRIMARY KEY, of_terms BLOB)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO texts VALUES (?, ?)", enumerate(texts))
    db.executemany("INSERT INTO weights VALUES (?, ?)", ((row, sparse.row_blob(weights, row)) for row in range(options.rows)))
    db.execute("CREATE VIRTUAL TABLE fts USING fts5(body, content=texts, content_rowid=id)")
    db.execute("INSERT INTO fts(fts) VALUES ('rebuild')")
    db.execute("COMMIT")
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, approximate FLOAT[{DIM}] index=approximate, flat FLOAT[{DIM}], "
               f"words TEXT index=words, sparse SPARSE[{sparse.TERMS}])")
    load_vectors(db, "t", vectors, ", vector, (SELECT body FROM texts WHERE id = warp_vectors_file.rowid), "
                                   "(SELECT of_terms FROM weights WHERE id = warp_vectors_file.rowid)")
    db.execute("DROP TABLE weights")
    db.execute("INSERT INTO t(t) VALUES ('optimize')")
    time_sources(db, options, vectors, words, rng)


def time_sources(db, options, vectors, words, rng):
    near = vectors[rng.integers(len(vectors), size=options.queries)]
    near += 0.3 * rng.standard_normal(near.shape, dtype=np.float32)
    picks = rng.integers(len(words), size=options.queries)
    weights = sparse.zipf_rows(options.queries, 40, rng, by_rarity=True)
    alone = {
        "approximate": "SELECT rowid, rank FROM warp_knn_search('t', 'approximate', ?, 100)",
        "flat": "SELECT rowid, rank FROM warp_knn_search('t', 'flat', ?, 100)",
        "fts": "SELECT rowid, rank FROM warp_hybrid_search('t', 100, 'fts', ?)",
        "words": "SELECT rowid, rank FROM warp_document_search('t', 'words', ?, 100)",
        "sparse": "SELECT rowid, rank FROM warp_knn_search('t', 'sparse', ?, 100)",
    }
    sets = [(vector, *others) for vector in ("approximate", "flat")
            for others in (("fts",), ("fts", "sparse"), ("fts", "sparse", "words"), ("sparse",))]
    times = {name: [] for name in (*alone, *sets)}
    for number, (vector, pick) in enumerate(zip(near, picks)):
        asked = words[pick] if number % 2 else words[pick][:1]  # one word, or three
        query = {"approximate": vector.tobytes(), "flat": vector.tobytes(), "fts": " OR ".join(asked),
                 "words": " ".join(asked), "sparse": sparse.row_blob(weights, number)}
        for name, sql in alone.items():
            times[name].append(timed(db, sql, (query[name],))[0])
        for sources in sets:
            sql = f"SELECT * FROM warp_hybrid_search('t', 10{', ?' * (2 * len(sources))})"
            times[sources].append(timed(db, sql, [x for name in sources for x in (name, query[name])])[0])
    for sources in sets:
        for asked, part in (("one word", slice(4, None, 2)), ("three words", slice(5, None, 2))):
            medians = {name: statistics.median(times[name][part]) for name in (*sources, sources)}
            slowest = [max(times[name][i] for name in sources) for i in range(options.queries)]
            beyond = statistics.median([a - b for a, b in zip(times[sources], slowest)][part])
            report(f"hybrid of {', '.join(sources)}; {asked}", rows=len(vectors), ms=medians.pop(sources),
                   ms_beyond_the_slowest=beyond, **{f"{name}_ms": ms for name, ms in medians.items()})


def best_by_numpy(tokens, documents, k):
    scores = np.concatenate([(part.reshape(-1, DIM) @ tokens.T).reshape(len(part), DOCUMENT, -1).max(1).sum(1)
                             for part in np.array_split(documents, max(1, len(documents) // 500))])
    return np.argsort(-scores)[:k]


def maxsim(options):
    rng = np.random.default_rng(2)
    tokens = clustered(rng, options.documents * DOCUMENT)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    documents = tokens.reshape(-1, DOCUMENT, DIM)
    db = connect(options.build, options.threads)
    db.execute(f"CREATE VIRTUAL TABLE d USING warp(id INTEGER PRIMARY KEY, e FLOAT[{DIM}] distance=cosine index=approximate, doc INTEGER)")
    load_vectors(db, "d", tokens, f", rowid / {DOCUMENT}")
    db.execute("INSERT INTO d(d) VALUES ('optimize')")
    cases = {"all": {"exact": 1}, "nominated": {}, "100 given": {}}
    times, found = {case: [] for case in cases}, 0
    by_numpy = []
    for _ in range(options.queries):
        query = documents[rng.integers(len(documents)), :TOKENS] + 0.05 * rng.standard_normal((TOKENS, DIM), dtype=np.float32)
        query /= np.linalg.norm(query, axis=1, keepdims=True)
        cases["100 given"]["documents"] = rng.choice(len(documents), 100, replace=False).tolist()
        answers = {}
        for case, given in cases.items():
            if case == "all" and len(times[case]) >= 20:
                continue
            taken, rows = timed(db, "SELECT document, score FROM warp_maxsim_search('d', 'e', 'doc', ?, 10, ?)",
                                (query.tobytes(), json.dumps(given)))
            times[case].append(taken)
            answers[case] = {row[0] for row in rows}
        if "all" in answers:
            found += len(answers["all"] & answers["nominated"])
        given = documents[cases["100 given"]["documents"]]
        begin = time.perf_counter()
        best_by_numpy(query, given, 10)
        by_numpy.append(1000 * (time.perf_counter() - begin))
    for case, taken in times.items():
        more = {"recall": found / (10 * len(times["all"]))} if case == "nominated" else {}
        more |= {"numpy_ms": statistics.median(by_numpy[3:])} if case == "100 given" else {}
        report(f"maxsim, {case}", documents=len(documents), vectors=DOCUMENT, tokens=TOKENS,
               ms=statistics.median(taken[3:]), least_ms=min(taken), **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parts", default="hybrid,maxsim")
    options = parser.parse_args()
    for part in options.parts.split(","):
        {"hybrid": hybrid, "maxsim": maxsim}[part](options)


if __name__ == "__main__":
    main()
