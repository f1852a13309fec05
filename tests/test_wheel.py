"""The wheel: what it holds, and that it works where there is no checkout.

It is built from a copy with a version of its own and goes into an environment that takes only the dependencies from
this one: a folder named in a .pth file is searched, but its own .pth files, where an editable installation hides, are
not read.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from dynamics.simd.shipped import environment_of, host_levels
from experiments import wheel as experiment
from experiments.wheel import COUNT, build

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("trajopt", "dynamics", "problems")
VERSION = "0.1.0.post7"
LEVEL = next(iter(host_levels()), "")
pytestmark = pytest.mark.slow
STEPS = """
import numpy as np

import dynamics
import problems

robot = dynamics.load_urdf(problems.model_path("arm6"))
system = dynamics.RigidBodySystem(robot, dt=0.03)
x0 = system.state(q=np.full(6, 0.1))
xs = system.rollout(x0, np.zeros((5, 6)))
tool = dynamics.FrameTranslation(robot, "tool", target=[0.4, 0.5, 0.3])
assert np.isfinite(tool.evaluate(xs, None)).all()
"""
"""A script that needs few kernels."""


def run(*command, cwd, check=True, **variables):
    """What a command prints, on stdout and stderr; this process's own ways to find modules are kept from it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=kept | variables, **together)
    assert not check or done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, "experiments", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, source)
    (source / "tests").mkdir()
    (source / "tests" / "__init__.py").touch()
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert settings.count('\nversion = "') == 1
    before, _, after = settings.partition('\nversion = "')
    (source / "pyproject.toml").write_text(f'{before}\nversion = "{VERSION}"{after.partition(chr(34))[2]}')
    pip = sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"
    run(*pip, "--wheel-dir", folder, source, cwd=source)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "dependencies.pth").write_text("\n".join(sorted(ours)) + "\n")
    run(python, "-c", "import numba, matplotlib, rich", cwd=home)
    for name in PACKAGES:
        found = run(python, "-c", f"import {name}", cwd=home, check=False)
        assert f"No module named '{name}'" in found, "the environment sees another installation"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    return python


def test_what_the_wheel_holds(wheel):
    assert wheel.name == f"trajopt_ddp-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        metadata = archive.read(f"trajopt_ddp-{VERSION}.dist-info/METADATA").decode()
    kinds = "*.py", "py.typed", "manifest.json"
    wanted = {path for name in PACKAGES for kind in kinds for path in (ROOT / name).rglob(kind)}
    for folder in ("problems/models", "trajopt/plotting/report", "trajopt/command_line/templates"):
        wanted |= {path for path in (ROOT / folder).iterdir() if path.is_file()}
    assert {name for name in held if ".dist-info/" not in name} == {str(path.relative_to(ROOT)) for path in wanted}
    assert {f"{name}/py.typed" for name in PACKAGES} | {"problems/models/arm6.urdf"} <= held
    assert "License-Expression: BSD-2-Clause" in metadata and "# trajopt" in metadata


@pytest.mark.parametrize(
    "only, left_out", [(("custom_dynamics", "pendulum"), ()), (("imitation", "buckling"), ("imitation",)), ((), None)]
)
@pytest.mark.skipif(not LEVEL, reason="the processor reaches no level that kernels are compiled for")
def test_what_is_compiled_into_it(only, left_out, tmp_path, monkeypatch, capsys):
    """Examples and problems, without those examples whose extra is missing, which is said."""
    called, checked = [], []
    lacking = lambda script: f"{script.stem} needs much" if script.stem in ("imitation", "panda_job") else ""  # noqa: E731
    monkeypatch.setattr(experiment, "lacking", lacking)
    monkeypatch.setattr(experiment, "_call", lambda *command, **settings: called.append((command[1:], settings)))
    result = lambda *given: checked.append(given[3]) or [{"example": "none", "compiled": 0}]  # noqa: E731
    monkeypatch.setattr(experiment, "check", result)
    options = ["--levels", LEVEL, *(("--only", *only) if only else ())]
    monkeypatch.setattr(experiment, "build", lambda *_: Path(shutil.copy(ROOT / "LICENSE", tmp_path / "made.whl")))
    assert experiment.main([*options, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    chosen = list(only) or [*experiment.scripts(), *experiment.names()]
    out = {"imitation", "panda_job"} if left_out is None else set(left_out)
    left = [name for name in experiment.programs() if name in chosen and name not in out]
    ((command, settings),) = called
    assert command == ("-m", "trajopt", "compile", *(("--for", ",".join(left)) if only else ()))
    assert settings["NUMBA_CPU_NAME"] == LEVEL
    assert all(f"left out: {name} needs much" in printed for name in out) and printed.count("left out") == len(out)
    assert checked == [left if only else ["quick_start", "quadruped"]]


def test_a_wheel_that_nothing_can_try(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "lacking", lambda script: "much")
    with pytest.raises(SystemExit, match="--only: got nothing that can run here"):
        experiment.main(["--only", "imitation", "--out", str(tmp_path)])
    monkeypatch.setattr(experiment.shipped, "host_levels", list)
    with pytest.raises(SystemExit, match="this processor is none of x86-64-v3"):
        experiment.main(["--levels", "x86-64-v3", "--out", str(tmp_path)])


def test_it_works_in_a_folder_with_others_of_its_names(python, tmp_path):
    """The quick start, then the commands, in a folder whose packages must not be taken for those of the wheel; kernels
    are those of this checkout, whose sources are the same."""
    for name in ("problems", "dynamics"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('raise RuntimeError("not this one")\n')
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()

    def command(*arguments):
        return run(*arguments, cwd=tmp_path, COLUMNS="200")

    printed = command(python, ROOT / "examples" / "quick_start.py")
    assert printed.count("converged") >= 2, printed
    assert {path.name for path in (tmp_path / "results" / "quick_start").iterdir()} == {"convergence.png", "motion.png"}
    assert command(python, "-m", "trajopt", "--version") == (
        f"trajopt {VERSION} from {site} (distribution trajopt-ddp)\n"
    )
    assert "wrote out/ddp.npz" in command(python, "-m", "trajopt", "solve", "pendulum", "--out", "out")
    (tmp_path / "trajopt.py").write_text('raise RuntimeError("nor this one")\n')
    listed = command(python.with_name("trajopt"), "list")
    assert "quadruped_trot" in listed and "experiments" not in listed


@pytest.mark.skipif(not LEVEL, reason="the processor reaches no level that kernels are compiled for")
def test_kernels_that_come_with_it(python, tmp_path):
    """A process that compiles for its own processor takes those of the level; where versions differ, it says so.  Here
    they are the kernels of steps and of a residual; `make wheel` looks at examples."""
    script, variables = tmp_path / "steps.py", {"TRAJOPT_CACHE_DIR": str(tmp_path / "cache")}
    script.write_text(STEPS, encoding="utf-8")
    run(python, script, cwd=tmp_path, **variables, **environment_of(LEVEL))
    assert any((tmp_path / "cache").rglob("*.nbc"))
    wheel = build(ROOT, {LEVEL: tmp_path / "cache"}, tmp_path)
    assert wheel.name.split("-", 2)[2] == f"cp3{sys.version_info[1]}-none-linux_x86_64.whl"
    options = "--no-deps", "--no-index", "--force-reinstall"
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=tmp_path)

    def compiled(name, *arguments):
        return run(python, "-c", COUNT, *arguments, cwd=tmp_path, TRAJOPT_CACHE_DIR=str(tmp_path / name))

    assert compiled("empty", script).split()[-1] == "0"
    assert not any((tmp_path / "empty").rglob("*.nbc"))

    (about,) = python.parents[1].rglob("shipped/about.json")
    about.write_text(about.read_text().replace('"numba": "', '"numba": "0.'))
    script = tmp_path / "script.py"
    script.write_text("from dynamics.simd.shipped import misfit; print(misfit())\n")
    assert "those that came with the package are for numba 0.0." in compiled("other", script)
