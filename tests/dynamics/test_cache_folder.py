"""The folder of the kernels' disk cache lies where it is told to, and others cannot write to it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from dynamics.simd import cache_folder
from tests.dynamics.test_kernel_cache import KERNEL, run


@pytest.mark.parametrize("obstacle", ["a file", "everybody"])
def test_an_unfit_folder_is_not_used_nor_one_of_numbas_choice(tmp_path, obstacle):
    """A folder for this process alone instead, which is gone afterwards, and one warning."""
    script, folder, passing = tmp_path / "script.py", tmp_path / "cache", tmp_path / "passing"
    script.write_text(KERNEL + "from dynamics.simd.cache_folder import cache_root; print(cache_root())")
    if obstacle == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    passing.mkdir()
    numbas = {"NUMBA_CACHE_DIR": str(tmp_path / "other"), "NUMBA_CACHE_LOCATOR_CLASSES": "InTreeCacheLocator"}
    compiled, result, used = run(script, folder, warned=1, TMPDIR=str(passing), **numbas)
    assert (compiled, result) == ("1", "2.0") and Path(used).parent == passing
    assert not list(passing.iterdir()) and not list(tmp_path.rglob("*.nbc"))


def test_without_a_home_kernels_are_kept_among_temporary_files_unless_others_were_there_first(tmp_path, monkeypatch):
    monkeypatch.delenv("TRAJOPT_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours = tmp_path / f"trajopt-{os.geteuid()}"
    root = cache_folder.cache_root.__wrapped__
    assert root() == ours / "kernels"
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (ours, ours / "kernels")] == [0o700, 0o700]
    ours.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"{ours}: others can write to it") as caught:
        passing = root()
    assert len(caught) == 1 and passing.parent == tmp_path and passing != ours and caught[0].filename == __file__
    assert stat.S_IMODE(passing.stat().st_mode) == 0o700


def test_folders_are_made_for_the_user_alone_and_links_to_them_resolved(tmp_path):
    before = os.umask(0)
    try:
        (tmp_path / "link").symlink_to(tmp_path)
        folder = cache_folder.private_folder(tmp_path / "link" / "above" / "folder")
    finally:
        os.umask(before)
    assert folder == tmp_path.resolve() / "above" / "folder"
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder, folder.parent)] == [0o700, 0o700]
    tmp_path.chmod(0o1777)  # as /tmp: others can make files, but not replace ours
    assert cache_folder.private_folder(folder) == folder


@pytest.mark.parametrize(
    "flaw, message",
    [
        (lambda folder, patch: folder.chmod(0o777), "others can write to it"),
        (lambda folder, patch: folder.chmod(0o770), "others can write to it"),
        (lambda folder, patch: folder.parent.chmod(0o777), "others can write to"),
        (lambda folder, patch: patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1), "belongs to user"),
        (lambda folder, patch: folder.rename(folder.parent / "x") and folder.symlink_to("x"), "is a link"),
        (lambda folder, patch: folder.rmdir() or folder.symlink_to("nothing"), "exists"),
    ],
    ids=["everybody writes", "group writes", "everybody replaces", "owner", "link", "link to nothing"],
)  # fmt: skip
def test_folders_that_others_can_fill_are_refused(tmp_path, monkeypatch, flaw, message):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    flaw(folder, monkeypatch)
    with pytest.raises(OSError, match=message):
        cache_folder.private_folder(folder)
