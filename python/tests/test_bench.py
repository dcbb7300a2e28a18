"""What bench/ has in Python: recall beside peers, the pictures, and Warplite within other people's benchmarks."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
HARNESS = BENCH / "harness"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def points(rows, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float32)


def nearest(base, query, k):
    return set(np.argsort(((base - query) ** 2).sum(1))[:k].tolist())


@pytest.mark.parametrize(("index", "options"), [("flat", []), ("ivfflat(lists=16)", [16]), ("lsh", [{"refine": 500}])])
def test_ann_benchmarks_finds_the_nearest(index, options):
    base, queries = points(2000), points(20, 1)
    engine = load(HARNESS / "ann_benchmarks" / "module.py").Warplite("euclidean", index)
    engine.fit(base)
    engine.set_query_arguments(*options)
    found = [set(engine.query(query, 10)) for query in queries]
    assert found == [nearest(base, query, 10) for query in queries]
    engine.batch_query(queries, 10)
    assert [set(row.tolist()) for row in engine.get_batch_results()] == found
    engine.done()


def test_ann_benchmarks_trains_what_is_approximate():
    engine = load(HARNESS / "ann_benchmarks" / "module.py").Warplite("angular", "ivfflat(lists=64)")
    base = points(2000)
    engine.fit(base)
    engine.set_query_arguments(1)
    missed = [set(engine.query(query, 10)) != nearest(base, query, 10) for query in points(20, 1)]
    assert any(missed), "one list of 64 cannot hold every answer"


def test_recall_of_an_exact_index_is_one(tmp_path):
    np.save(tmp_path / "base.npy", points(2000))
    command = [sys.executable, BENCH / "recall.py", "--base", tmp_path / "base.npy", "--only", "Warplite"]
    run = subprocess.run(
        [*command, "--limit", "20", "--rounds", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[0]["what"] == "machine" and lines[0]["rows"] == 1980
    recalls = {}
    for line in lines:
        if line["what"] == "index":
            recalls.setdefault(line["index"].split()[1].split("(")[0], []).append(line["recall"])
    assert recalls["flat"] == recalls["sss"] == recalls["list_of_clusters"] == [1.0]
    assert recalls["ivfflat"] == sorted(recalls["ivfflat"]) and recalls["ivfflat"][0] < 0.9 < recalls["ivfflat"][-1]


def test_pictures_are_drawn_from_the_lines_beside_them(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(BENCH))
    plots = load(BENCH / "plots.py")
    for name in plots.NAMES:
        shutil.copy(ROOT / "docs" / "pictures" / f"{name}.jsonl", tmp_path)
    monkeypatch.setattr(plots, "PICTURES", tmp_path)
    for name in plots.NAMES:
        plots.draw(name)
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert "Warplite" in drawn and "sqlite-vec" in drawn


def test_vectordb_bench_filters_before_it_chooses(tmp_path):
    pytest.importorskip("vectordb_bench.backend.clients.warplite", reason="bench/harness/install.py puts it there")
    from vectordb_bench.backend.clients import DB, MetricType
    from vectordb_bench.backend.filter import IntFilter, LabelFilter, non_filter

    options = DB.Warplite.case_config_cls()(metric_type=MetricType.L2, index="flat")
    place = DB.Warplite.config_cls(path=str(tmp_path / "v.db")).to_dict()
    client = DB.Warplite.init_cls(16, place, options, drop_old=True, with_scalar_labels=True)
    base, query = points(300), points(1, 1)[0]
    labels = [f"label_{'10p' if row % 10 == 0 else 'other'}" for row in range(300)]
    with client.init():
        assert client.insert_embeddings(base.tolist(), list(range(300)), labels_data=labels) == (300, None)
        client.optimize()
        for filter_, passes in (
            (non_filter, range(300)),
            (IntFilter(int_value=200, filter_rate=0.01), range(200, 300)),
            (LabelFilter(label_percentage=0.1), range(0, 300, 10)),
        ):
            client.prepare_filter(filter_)
            expected = [row for row in np.argsort(((base - query) ** 2).sum(1)).tolist() if row in passes][:5]
            assert client.search_embedding(query.tolist(), 5) == expected
