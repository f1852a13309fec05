"""The run that writes what compiles for which problem: here of one problem."""

import json

from dynamics.compilation.manifest import FILE
from dynamics.simd.cache_folder import cache_root
from experiments import manifest


def test_of_one_problem(tmp_path, capsys):
    root, before = cache_root(), FILE.read_text(encoding="utf-8")
    assert root is not None
    options = ["--only", "pendulum", "--keep", str(root.parent), "--out", str(tmp_path)]
    assert manifest.main(options) == 0, capsys.readouterr().out  # nothing that the package's file lacks
    new = json.loads((tmp_path / "manifest_new.json").read_text(encoding="utf-8"))
    assert list(new["jobs"]) == ["pendulum"] and len(new["functions"]) > 20
    assert set(manifest.keys(new)) <= set(manifest.keys(json.loads(before)))
    assert FILE.read_text(encoding="utf-8") == before
