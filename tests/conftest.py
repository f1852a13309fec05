"""How tests are shared out to processes: those that compile the same large kernels stay together.

With an empty kernel cache, two processes that reach contact dynamics at the same time would compile it twice.
"""

from pathlib import Path

import pytest

GROUPS = {
    "soft": ("rod_", "rods", "soft", "link_translation"),
    "contact": ("contact", "hybrid", "quadruped", "sweep_leading", "test_problems"),
}
"""Parts of the names of files whose robots are soft, or touch the ground."""
SOFT_PROBLEMS = ("soft_manipulator", "hybrid_arm")


def _group(item: pytest.Item) -> str:
    """That of robots, or else the file's own."""
    if any(name in item.name for name in SOFT_PROBLEMS):
        return "soft"
    file = Path(item.path).name
    return next((group for group, parts in GROUPS.items() if any(part in file for part in parts)), str(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A group for every file, but one for each kind of robot; these come first: they take longest."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: groups[item] not in GROUPS)
