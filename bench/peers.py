"""The peers: the sqlite-vec extension and Faiss, in a virtual environment of their own.

A peer that cannot be installed is skipped, with the reason.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

SQLITE_VEC = "sqlite-vec==0.1.9"
FAISS = ["faiss-cpu", "numpy"]
# What bench/recall.py measures besides, and what Warplite's package and sqlite-vec are loaded by.
RECALL = {"hnswlib": "hnswlib", "usearch": "usearch", "apsw": "apsw", "click": "click"}

FAISS_PROGRAM = """
import json, sys, time
import faiss, numpy
base, queries, k, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def read(path):
    words = numpy.fromfile(path, dtype='<f4')
    dim = int(words[:1].view('<i4')[0])
    return numpy.ascontiguousarray(words.reshape(-1, dim + 1)[:, 1:])
x, q = read(base), read(queries)
index = faiss.IndexFlatL2(x.shape[1])
index.add(x)
times = {}
for threads in (1, 2):
    faiss.omp_set_num_threads(threads)
    index.search(q, k)
    ms = []
    for _ in range(runs):
        start = time.perf_counter()
        distances, _ = index.search(q, k)
        ms.append((time.perf_counter() - start) * 1e3)
    times[threads] = sorted(ms)[len(ms) // 2]
print(json.dumps({'ms': times, 'sum': float(numpy.sqrt(distances.astype(float)).sum()),
                  'version': faiss.__version__}))
"""


class Peers:
    """REQUIRES: python3 with venv, and a package index within reach, for anything to be found."""

    def __init__(self, folder: Path):
        self.python = folder / "venv" / "bin" / "python"
        if not self.python.exists():
            command = [sys.executable, "-m", "venv", str(folder / "venv")]
            if subprocess.run(command, capture_output=True).returncode != 0:
                print("peers: no virtual environment (Debian: python3-venv)", file=sys.stderr)
        self.sqlite_vec = self._sqlite_vec()
        self.faiss = self._install(FAISS, "faiss")

    def _install(self, packages, module):
        """True when `module` can be imported, after an attempt to install `packages`."""
        if not self.python.exists():
            return False
        probe = [str(self.python), "-c", f"import {module}"]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return True
        install = [str(self.python), "-m", "pip", "install", "--quiet", *packages]
        outcome = subprocess.run(install, capture_output=True, text=True)
        if outcome.returncode == 0:
            return True
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"peers: {packages[0]} is skipped: {reason}", file=sys.stderr)
        return False

    def _sqlite_vec(self):
        """The path of the extension without its suffix, or None."""
        if not self._install([SQLITE_VEC], "sqlite_vec"):
            return None
        code = "import sqlite_vec; print(sqlite_vec.loadable_path())"
        return subprocess.check_output([str(self.python), "-c", code], text=True).strip()

    def measure_recall(self, program, extension, *arguments):
        """The records of bench/recall.py, run by the Python that has the peers."""
        for package, module in RECALL.items():
            self._install([package], module)
        command = [str(self.python), str(program), *map(str, arguments)]
        environment = {**os.environ, "WARPLITE_EXTENSION": extension}
        lines = subprocess.check_output(command, env=environment, text=True).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def faiss_batch(self, base: Path, queries: Path, k: int, runs: int):
        """Milliseconds of a batch by number of threads, the sum of distances, the version."""
        command = [
            str(self.python),
            "-c",
            FAISS_PROGRAM,
            str(base),
            str(queries),
            str(k),
            str(runs),
        ]
        return json.loads(subprocess.check_output(command, text=True))
