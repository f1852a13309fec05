"""How tests are shared out to processes: those that compile the same large kernels stay together.

With an empty kernel cache, two processes that reach contact dynamics at the same time would compile it twice.
"""

import pytest

GROUPS = {
    "soft": ("rod_", "rods", "soft", "link_translation"),
    "contact": ("contact", "hybrid", "quadruped", "sweep_leading", "test_problems"),
    "callable": ("test_callable",),
}
"""Parts of the names of files whose robots are soft, touch the ground, or are functions of the user."""
SOFT_PROBLEMS = ("soft_manipulator", "hybrid_arm")


def group_of(nodeid: str) -> str:
    """One of `GROUPS`, or else the file's own."""
    path, _, name = nodeid.partition("::")
    if any(problem in name for problem in SOFT_PROBLEMS):
        return "soft"
    file = path.rsplit("/", 1)[-1]
    return next((group for group, parts in GROUPS.items() if any(part in file for part in parts)), path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These groups come first: they take longest."""
    items.sort(key=lambda item: group_of(item.nodeid) not in GROUPS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """A group at a time to each process, in the order of the tests.  (Marks for `--dist loadgroup` do not serve: with
    pytest 9.2 xdist 3.8 overlooks them, its issue 1386.)"""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
