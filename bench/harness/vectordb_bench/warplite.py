"""Warplite for VectorDBBench: a table in a file, searched by SQL."""

from contextlib import contextmanager

import numpy as np
import warplite

from ...filter import Filter, FilterOp
from ..api import VectorDB
from .config import DISTANCES


class Warplite(VectorDB):
    name = "Warplite"
    thread_safe = False  # a thread has a connection of its own
    supported_filter_types = [FilterOp.NonFilter, FilterOp.NumGE, FilterOp.StrEqual]

    def __init__(
        self,
        dim,
        db_config,
        db_case_config,
        collection_name="vectors",
        drop_old=False,
        with_scalar_labels=False,
        **kwargs,
    ):
        self.path, self.table, self.options = db_config["path"], collection_name, db_case_config
        self.where, self.value, self.db = "", (), None
        distance = DISTANCES[db_case_config.metric_type]
        label = ", label TEXT" if with_scalar_labels else ""
        with self.init():
            if drop_old:
                self.db.execute(f"DROP TABLE IF EXISTS {self.table}")
            self.db.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {self.table} USING warp("
                f"id INTEGER PRIMARY KEY, embedding FLOAT[{dim}] distance={distance} index={db_case_config.index}{label})"
            )

    @contextmanager
    def init(self):
        self.db = warplite.connect(self.path)
        try:
            yield
        finally:
            self.db.close()
            self.db = None

    def insert_embeddings(self, embeddings, metadata, labels_data=None, **kwargs):
        columns = {"id": metadata, "embedding": np.asarray(embeddings, np.float32)}
        if labels_data is not None:
            columns["label"] = labels_data
        try:
            warplite.add(self.db, self.table, None, **columns)
        except Exception as error:  # the caller counts and retries
            return 0, error
        return len(metadata), None

    def optimize(self, data_size=None):
        commands = (
            ["optimize", "train"] if self.options.index.startswith(("ivf", "lsh", "approximate")) else ["optimize"]
        )
        with self.db:
            for command in commands:
                self.db.execute(f"INSERT INTO {self.table}({self.table}) VALUES ('{command}')")

    def prepare_filter(self, filters: Filter):
        if filters.type == FilterOp.NumGE:
            self.where, self.value = " AND id >= ?", (filters.int_value,)
        elif filters.type == FilterOp.StrEqual:
            self.where, self.value = " AND label = ?", (filters.label_value,)
        else:
            self.where, self.value = "", ()

    def search_embedding(self, query, k=100, **kwargs):
        vector = np.asarray(query, np.float32).tobytes()
        nprobe = f" AND nprobe = {self.options.nprobe}" if self.options.nprobe else ""
        sql = f"SELECT id FROM {self.table} WHERE embedding MATCH ? AND k = ?{nprobe}{self.where}"
        return [row[0] for row in self.db.execute(sql, (vector, k, *self.value))]
