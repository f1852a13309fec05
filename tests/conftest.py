"""How tests are shared out to processes: those that compile the same large kernels stay together.

With an empty kernel cache, two processes that reach contact dynamics at the same time would compile it twice.
"""

from pathlib import Path

import pytest

GROUPS = {
    "soft": ("rod_", "rods", "soft", "hybrid_arm"),
    "contact": ("contact", "hybrid", "quadruped", "sweep_leading", "test_problems"),
}
"""Parts of the names of files and tests whose robots are soft, or touch the ground."""


def _group(item: pytest.Item) -> str:
    """That of robots, or else the file's own."""
    name = f"{Path(item.path).name}::{item.name}"
    return next((group for group, parts in GROUPS.items() if any(part in name for part in parts)), str(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A group for every file, but one for each kind of robot; these come first: they take longest."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: groups[item] not in GROUPS)
