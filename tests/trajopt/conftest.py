"""Fixtures of the solver tests."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """Seeded random numbers."""
    return np.random.default_rng(20240607)
