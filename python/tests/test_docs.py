"""What README.md and docs/python.md show, run as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "python.md", ROOT / "python" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page, tmp_path):
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    assert "warplite.search(" in code
    code += "\nassert rowids.shape == (3, 10) and (abs(distances[:, 0]) < 1e-6).all() and (rowids >= 0).all()\n"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
