"""Tests of clusters, on a Ray of two CPUs that they start here. Without Ray there are none: see ../conftest.py."""

import os

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import ray  # noqa: E402

import warplite  # noqa: E402
import warplite.cluster  # noqa: E402

SCHEMA = (
    "CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, e FLOAT[16], year INTEGER, venue TEXT, "
    "name TEXT index=ngram(n=3), words TEXT index=words)"
)
ROWS = 4000


@pytest.fixture(scope="session", autouse=True)
def local_ray():
    for attempts_left in (2, 1, 0):  # Ray gives itself 30 seconds, which a busy machine may not have
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
            break
        except Exception:
            ray.shutdown()
            if not attempts_left:
                raise
    yield
    ray.shutdown()


def make_rows(rows=ROWS, seed=0):
    """Rows with ties: few different vectors and texts, so that the order by id is seen."""
    random = np.random.default_rng(seed)
    vectors = random.integers(-3, 4, (rows, 16)).astype("f4")
    vectors[rows // 2 :] = vectors[: rows - rows // 2]
    letters = np.array(list("abc"))
    return {
        "e": vectors,
        "year": random.integers(1990, 2030, rows),
        "venue": [["VLDB", "SIGMOD", "ICDE"][i] for i in random.integers(0, 3, rows)],
        "name": ["".join(letters[random.integers(0, 3, 8)]) for _ in range(rows)],
        "words": [" ".join(f"w{i}" for i in random.integers(0, 9, 4)) for _ in range(rows)],
    }


@pytest.fixture(scope="session")
def rows():
    return make_rows()


@pytest.fixture(scope="session")
def one_file(rows):
    """All rows in one table: what every answer is compared with."""
    return table_of(rows, np.arange(ROWS))


def table_of(rows, ids, schema=SCHEMA):
    db = warplite.connect(":memory:")
    db.execute(schema)
    warplite.add(db, "papers", ids, **rows)
    return db


@pytest.fixture
def parquet(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    table = pa.table({name: list(values) if name == "e" else values for name, values in rows.items()})
    parquet.write_table(table, path, row_group_size=700)
    return str(path)
