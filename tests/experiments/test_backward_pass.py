"""The backward-pass experiment runs at small size and writes what it prints."""

import json

from experiments import backward_pass


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "backward_pass.json"
    backward_pass.main(["--quick", "--out", str(path)])
    assert "12" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) and "structured" in text
