"""Pages fit the window of a telephone: what is wider scrolls by itself.  Those of the reference, which are written by
docstrings, and one of each other folder."""

import pytest

from tests.docs.built import pages
from tests.trajopt.browser import CHROMIUM, Browser

WIDTH = 420


@pytest.mark.docs
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_no_page_is_wider_than_a_narrow_window(site, tmp_path):
    wide, found = {}, pages(site)
    shown = [*{path.parent: path for path in found}.values(), *(site / "reference").glob("*.html")]
    with Browser(tmp_path, (WIDTH, 900), seconds=200.0) as browser:
        for path in shown:
            browser.open(path.as_uri())
            browser.show_as(WIDTH, 900)
            width = browser.evaluate("document.documentElement.scrollWidth")
            if width > WIDTH + 1:
                wide[path.relative_to(site).as_posix()] = width
    assert wide == {}
