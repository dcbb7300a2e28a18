#!/usr/bin/env python3
"""Search of sparse vectors through SQL, beside a scipy CSR product in the same run.

    bench/sparse.py --build build/release [--rows 1000000] [--queries 200] [--threads 1]
                    [--data zipf|splade|titles] [--titles titles_50k.txt] [--file /tmp/sparse.db]

`zipf`: 120 of 30,522 terms a row, drawn by Zipf's law without return, queries of 40 likewise; weights are
lognormal and know nothing of the term. `splade`: the same, but rare terms weigh more, as a trained model has
them. `titles`: tf·idf over pieces of words of real titles, each expanded by terms that often occur beside
its own. Prints one JSON line a case, beginning with what is known of the data, to be compared with what is
published of SPLADE on MS MARCO: 120 to 130 non-zeros a passage and 49 a query (the sparse track of
big-ann-benchmarks), which have 1.1 to 3.8 terms in common on average (FLOPS, Naver's table of its models).

Every answer is compared with scipy's: the same k rows, but for ties and the last bit of a sum.
Needs numpy and scipy.
"""

import argparse
import os
import re
import sqlite3
import time
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse

from record import report

TERMS = 30522
TITLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "titles_50k.txt"


def zipf_rows(rows, per_row, rng, by_rarity, chunk=20000):
    """CSR of so many distinct terms a row; of draws, the first that are not there yet count."""
    law = 1 / np.arange(1, TERMS + 1)
    cumulated = np.cumsum(law / law.sum())
    names = np.random.default_rng(7).permutation(TERMS)  # frequent terms stand anywhere
    weights = 0.35 + 0.65 * np.log(np.arange(1, TERMS + 1)) / np.log(TERMS) if by_rarity else np.ones(TERMS)
    parts = []
    for first in range(0, rows, chunk):
        n = min(chunk, rows - first)
        draws = np.searchsorted(cumulated, rng.random((n, 4 * per_row + 40)))
        order = np.argsort(draws, axis=1, kind="stable")
        sorted_draws = np.take_along_axis(draws, order, 1)
        again = np.zeros_like(draws, dtype=bool)
        np.put_along_axis(again, order[:, 1:], sorted_draws[:, 1:] == sorted_draws[:, :-1], 1)
        taken = ~again & (np.cumsum(~again, axis=1) <= per_row)
        ranks = draws[taken]
        ends = np.concatenate([[0], np.cumsum(taken.sum(1))])
        values = np.exp(rng.normal(-0.6, 0.7, len(ranks))).clip(0.01, 4) * weights[ranks]
        part = scipy.sparse.csr_matrix((values.astype(np.float32), names[ranks], ends), (n, TERMS))
        part.sort_indices()
        parts.append(part)
    return scipy.sparse.vstack(parts, format="csr")


def pieces(text):
    """Words, long ones as pieces of up to six letters."""
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        for at in range(0, len(word), 6):
            yield ("##" if at else "") + word[at:at + 6]


def title_counts(path, rng):
    """CSR of how often pieces are in titles; without those in one title, or in one of ten and more."""
    titles = [Counter(pieces(title)) for title in Path(path).read_text().splitlines()]
    rng.shuffle(titles)
    frequency = Counter(term for terms in titles for term in terms)
    frequent = [term for term, count in frequency.most_common(TERMS) if 2 <= count <= len(titles) / 10]
    number = {term: i for i, term in enumerate(frequent)}
    kept = [[(number[term], count) for term, count in terms.items() if term in number] for terms in titles]
    pairs = np.array([pair for pairs in kept for pair in pairs])
    ends = np.cumsum([0] + [len(pairs) for pairs in kept])
    return scipy.sparse.csr_matrix((pairs[:, 1].astype(np.float32), pairs[:, 0], ends), (len(titles), TERMS))


def expansions(counts, idf, most):
    """Of each term those that occur most beside it for how often both occur, at half their weight."""
    there = (counts != 0).astype(np.float32)
    beside = (there.T @ there).tocsr()
    beside.setdiag(0)
    beside.eliminate_zeros()
    frequency = np.asarray(there.sum(0)).ravel()
    terms = np.repeat(np.arange(TERMS), np.diff(beside.indptr))
    beside.data *= 0.5 * idf[beside.indices] / np.sqrt(frequency[terms] * frequency[beside.indices])
    order = np.lexsort((-beside.data, terms))
    best = order[np.arange(len(order)) - beside.indptr[terms] < most]
    return scipy.sparse.csr_matrix((beside.data[best], (terms[best], beside.indices[best])), beside.shape)


def expanded(counts, idf, expansion):
    """log(1 + x) of tf·idf and what it expands to, as SPLADE saturates its weights."""
    weights = counts.copy()
    weights.data = ((1 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    weights = (weights + (counts != 0).astype(np.float32) @ expansion).tocsr()
    weights.data = np.log1p(weights.data)
    weights.sort_indices()
    return weights


def title_rows(path, rows, queries, rng, chunk=50000):
    """Rows of titles, each term with 14 others; they come again, each time without a fifth of their terms.
    Queries are six terms of other titles, each with 8."""
    counts = title_counts(path, rng)
    idf = np.log(1 + counts.shape[0] / np.maximum(np.bincount(counts.indices, minlength=TERMS), 1)).astype(np.float32)
    held, others = counts[:queries], counts[queries:]
    held.data[np.arange(held.nnz) - np.repeat(held.indptr[:-1], np.diff(held.indptr)) >= 6] = 0
    held.eliminate_zeros()
    expansion, parts = expansions(counts, idf, 14), []
    for first in range(0, rows, chunk):
        part = others[np.arange(first, min(first + chunk, rows)) % others.shape[0]]
        if first + chunk > others.shape[0]:
            part.data[rng.random(part.nnz) < 0.2] = 0
            part.eliminate_zeros()
        parts.append(expanded(part, idf, expansion))
    return scipy.sparse.vstack(parts, format="csr"), expanded(held, idf, expansions(counts, idf, 8))


def row_blob(matrix, row):
    begin, end = matrix.indptr[row], matrix.indptr[row + 1]
    pairs = np.empty((end - begin, 2), np.uint32)
    pairs[:, 0] = matrix.indices[begin:end]
    pairs[:, 1] = matrix.data[begin:end].view(np.uint32)
    return pairs.tobytes()


def describe(options, base, queries):
    lengths = np.sort(np.bincount(base.indices, minlength=TERMS))[::-1]
    of_queries = np.bincount(base.indices, minlength=TERMS)[queries.indices].sum() / queries.shape[0]
    report("data", data=options.data, rows=base.shape[0], nonzeros=base.nnz / base.shape[0],
           query_nonzeros=queries.nnz / queries.shape[0], longest_posting_list=int(lengths[0]),
           hundredth=int(lengths[100]), mean=float(lengths.mean()), in_common=float(of_queries / base.shape[0]))


def insert(db, base):
    begin = time.perf_counter()
    with db:
        db.executemany("INSERT INTO t VALUES (?, ?)",
                       ((row, row_blob(base, row)) for row in range(base.shape[0])))
    return time.perf_counter() - begin


def median(statement, items):
    times = []
    for item in items:
        begin = time.perf_counter()
        statement(item)
        times.append(time.perf_counter() - begin)
    return float(np.median(times)), float(np.mean(times))


def check(found, exact, scores, k, where):
    """k rows whose sums are no less than any that is left out, nearest first."""
    assert len(found) == min(k, len(scores)), f"{where}: {len(found)} rows"
    sums = np.array([-distance for _, distance in found])
    assert (np.diff(sums) <= 0).all(), f"{where}: not in order"
    close = np.isclose(sums, scores[[rowid for rowid, _ in found]], rtol=1e-5, atol=1e-6)
    assert close.all(), f"{where}: wrong sums"
    assert np.allclose(sums, exact, rtol=1e-5, atol=1e-6), f"{where}: not the nearest"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--products", type=int, default=10, help="queries that scipy answers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--data", default="zipf", choices=("zipf", "splade", "titles"))
    parser.add_argument("--titles", default=TITLES)
    parser.add_argument("--file", default="/tmp/warplite_sparse.db")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    if options.data == "titles":
        base, queries = title_rows(options.titles, options.rows, options.queries, rng)
    else:
        by_rarity = options.data == "splade"
        base = zipf_rows(options.rows, 120, rng, by_rarity)
        queries = zipf_rows(options.queries, 40, rng, by_rarity)
    describe(options, base, queries)

    Path(options.file).unlink(missing_ok=True)
    db = sqlite3.connect(options.file)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    db.execute("SELECT warp_config('threads', ?)", (options.threads,))
    db.execute("SELECT warp_config('device', 'cpu')")
    db.execute(f"CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, s SPARSE[{TERMS}])")
    report("insert", seconds=insert(db, base))
    report("file", bytes_a_nonzero=os.path.getsize(options.file) / base.nnz,
           limit=1.3 * 6)

    blobs = [row_blob(queries, i) for i in range(queries.shape[0])]
    search = "SELECT rowid, distance FROM t WHERE s MATCH ? AND k = ?"
    begin = time.perf_counter()
    db.execute(search, (blobs[0], options.k)).fetchall()
    report("first search", seconds=time.perf_counter() - begin)

    # The product that a program would write: a vector of all scores, then the largest k.
    def product(i):
        scores = base @ queries[i].toarray()[0]
        best = np.argpartition(-scores, options.k)[:options.k]
        return best[np.argsort(-scores[best])]

    _, of_scipy = median(product, range(min(options.products, queries.shape[0])))
    middle, mean = median(lambda blob: db.execute(search, (blob, options.k)).fetchall(), blobs)
    report("one query", k=options.k, threads=options.threads, median_ms=middle * 1e3,
           queries_per_s=1 / mean, scipy_ms=of_scipy * 1e3, times_scipy=of_scipy / mean)

    matrix = db.execute("SELECT warp_csr(?, ?, ?)", (queries.indptr.astype(np.int64).tobytes(),
                                                     queries.indices.astype(np.uint32).tobytes(),
                                                     queries.data.astype(np.float32).tobytes())).fetchone()[0]
    arrays = "SELECT rowids, distances FROM warp_knn_arrays('t', 's', ?, ?)"
    begin = time.perf_counter()
    rowids, distances = db.execute(arrays, (matrix, options.k)).fetchone()
    report("batch", queries=queries.shape[0], threads=options.threads,
           queries_per_s=queries.shape[0] / (time.perf_counter() - begin))
    rowids = np.frombuffer(rowids, np.int64).reshape(-1, options.k)
    distances = np.frombuffer(distances, np.float64).reshape(-1, options.k)

    for i in range(min(options.products, queries.shape[0])):
        scores = base.astype(np.float64) @ queries[i].toarray()[0].astype(np.float64)
        exact = -np.sort(np.partition(-scores, options.k)[:options.k])
        found = db.execute(search, (blobs[i], options.k)).fetchall()
        check(found, exact, scores, options.k, f"query {i}")
        assert [rowid for rowid, _ in found] == list(rowids[i]), f"query {i}: the batch differs"
        assert [distance for _, distance in found] == list(distances[i])
    report("checked", queries=min(options.products, queries.shape[0]))


if __name__ == "__main__":
    main()
