"""What docs/cluster.md shows, run in order in an empty folder, as a reader would."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"


def test_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    names = {}
    for block in blocks:
        exec(compile(block.replace("ray.init()", ""), str(PAGE), "exec"), names)  # Ray is there already
    assert capsys.readouterr().out.split("\n")[:2] == ["(100, 10) (100, 10) 1.0", "3 20007 3"]
