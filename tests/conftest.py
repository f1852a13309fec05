"""How test files are shared out to processes: those that compile the same large kernels stay together.

With an empty kernel cache, two processes that reach contact dynamics at the same time would compile it twice.
"""

from pathlib import Path

import pytest

IN_CONTACT = ("contact", "hybrid", "quadruped", "sweep_leading", "test_problems")
"""Parts of the names of files whose robots touch the ground."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A group for every file, but one for all files of robots in contact, which comes first: it takes longest."""
    for item in items:
        name = Path(item.path).name
        group = "contact" if any(part in name for part in IN_CONTACT) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: not any(part in Path(item.path).name for part in IN_CONTACT))
