"""What the tests of robots share."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """A seeded generator; a file that stores results for its own seed overrides it."""
    return np.random.default_rng(2026)
