"""Warplite for ann-benchmarks; bench/recall.py measures by the same class. README.md says how it gets there."""

import json

import numpy as np
import warplite

try:
    from ..base.module import BaseANN
except ImportError:  # not within ann-benchmarks
    BaseANN = object


class Warplite(BaseANN):
    """One table in memory, searched by SQL; one thread, as ann-benchmarks asks of everybody."""

    def __init__(self, metric, index):
        self.distance = {"angular": "cosine", "euclidean": "l2", "hamming": "hamming"}[metric]
        self.index, self.options, self.text, self.batch = index, {}, "{}", None
        self.name = f"Warplite {index}"

    def fit(self, X):
        rows, dim = X.shape
        bits = self.distance == "hamming"
        column = f"BIT[{dim}]" if bits else f"FLOAT[{dim}]"
        self.db = warplite.connect(":memory:")
        self.db.execute("SELECT warp_config('device', 'cpu'), warp_config('threads', 1)").fetchall()
        self.db.execute(f"CREATE VIRTUAL TABLE t USING warp(e {column} distance={self.distance} index={self.index})")
        warplite.add(self.db, "t", range(rows), e=X.astype(bool) if bits else np.asarray(X, np.float32))
        self.db.execute("INSERT INTO t(t) VALUES ('optimize')")  # the newest rows, too, go into the index
        if self.index.startswith(("ivf", "lsh", "approximate")) and not self._trained(X[0]):
            self.db.execute("INSERT INTO t(t) VALUES ('train')")
        self.query(X[0], 10)  # an index that follows from the rows is made by the first search

    def _trained(self, query):
        self.query(query, 1)
        return "brute force" not in [row[0] for row in self.db.execute("SELECT method FROM warp_explain()")]

    def set_query_arguments(self, *options):
        """Options of warp_knn_search, as one object or as nprobe and refine."""
        given = options[0] if options and isinstance(options[0], dict) else dict(zip(("nprobe", "refine"), options))
        self.options = {key: value for key, value in given.items() if value is not None}
        self.text = json.dumps(self.options)
        self.name = f"Warplite {self.index} {self.text}"

    def query(self, v, n):
        bits = self.distance == "hamming"
        vector = np.packbits(v.astype(bool), bitorder="little") if bits else v.astype(np.float32, copy=False)
        rows = self.db.execute(
            "SELECT rowid FROM warp_knn_search('t', 'e', ?, ?, ?)", (vector.tobytes(), n, self.text)
        )
        return [row[0] for row in rows]

    def batch_query(self, X, n):
        self.batch = warplite.search(self.db, "t", "e", X, n, **self.options)[0]

    def get_batch_results(self):
        return self.batch

    def done(self):
        self.db.close()
