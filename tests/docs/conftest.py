"""Tests marked `docs` run only where they are asked for, `pytest -m docs`: `make test-docs`, or were skipped before."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(config, items):
    if "docs" not in config.option.markexpr and not config.option.skipped:
        left_out = [item for item in items if item.get_closest_marker("docs")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def site():
    """The folder of built pages."""
    if not (ROOT / "site" / "index.html").exists():
        pytest.fail("there is no site/: make docs")
    return ROOT / "site"
