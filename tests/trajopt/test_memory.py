"""Arrays of an iteration come from memory that the one before has freed."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
from trajopt.solvers.solve import keep_freed

def iteration():
    arrays = [np.ones((100, 36, 36)) for _ in range(8)]

keep_freed(100, 36, 12)
for _ in range(3):
    iteration()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    iteration()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults of Linux")
def test_page_faults_end():
    pages = 10 * 8 * 100 * 36 * 36 * 8 // 4096
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 0.1 * pages
