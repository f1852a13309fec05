"""The force law that CONTRIBUTING writes as an example, put into a copy of the package in place of joint friction."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAW = re.compile(r"@helper\ndef friction\(.*?\n(?=\n|```)", re.S)
CHECK = """
import numpy as np
import dynamics
from dynamics.model.joint_forces import joint_forces
from tests.dynamics.test_joint_friction import pendulum

d, c, e, h = 0.7, 0.4, 0.5, 0.01
system = dynamics.RigidBodySystem(pendulum(d, c), h, "explicit_euler", friction_speed=e)
v = np.linspace(-2.0, 2.0, 11)
f, df, ddf = (x[:, 0] for x in joint_forces(system.plant_model, 0.0 * v[:, None], v[:, None]))
s = np.sqrt(v**2 + e**2)
assert np.abs(f - (d * v + c * v * s)).max() < 1e-14
assert np.abs(df - (d + c * s + c * v**2 / s)).max() < 1e-14
assert np.abs(ddf - (3.0 * c * v / s - c * v**3 / s**3)).max() < 1e-14

xs = np.stack([v, v], axis=1)
fx, _ = system.linearize(np.concatenate([xs, xs[:1]]), np.zeros((11, 1)))
mass = 1.0 + system.plant_model.armature[0]  # with h d, for implicit damping
assert np.abs(fx[:, 1, 1] - (1.0 - h * df / mass)).max() < 1e-14
print("holds in", dynamics.__file__)
"""


def test_the_worked_example(tmp_path):
    """The law's values and derivatives against closed forms, and its part in a step's derivative."""
    for package in ("dynamics", "trajopt", "problems", "tests"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    written = LAW.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    place = tmp_path / "dynamics" / "model" / "joint_forces.py"
    changed, count = LAW.subn(lambda _: written[0], place.read_text(encoding="utf-8"))
    assert count == 1 and changed.count("splat(v, square)") == 1
    place.write_text(changed, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TRAJOPT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == f"holds in {tmp_path / 'dynamics' / '__init__.py'}\n", done.stderr
