"""No link of the site is dead, anchors included, and a page loads nothing from elsewhere."""

import re

import pytest

from tests.docs.built import foreign, page, pages, target

pytestmark = pytest.mark.docs


def test_no_link_is_dead(site):
    dead, looked_at = [], 0
    for path in pages(site):
        for link in page(path).links:
            if foreign(link):
                continue
            looked_at += 1
            file, anchor = target(path, link)
            if not file.exists():
                dead.append(f"{path.relative_to(site)}: {link}")
            elif anchor and file.suffix == ".html" and anchor not in page(file).anchors:
                dead.append(f"{path.relative_to(site)}: {link} has no such anchor")
    assert dead == [] and looked_at > 1000


def test_what_pages_load_is_there_and_nothing_comes_from_elsewhere(site):
    outside, missing = [], []
    for path in pages(site):
        for tag, address in page(path).loaded:
            if address.startswith("data:"):
                continue
            if foreign(address):
                outside.append(f"{path.relative_to(site)}: {tag} {address}")
            elif not target(path, address)[0].exists():
                missing.append(f"{path.relative_to(site)}: {tag} {address}")
    assert outside == [] and missing == []


def test_style_sheets_load_nothing_from_elsewhere(site):
    sheets = list((site / "_static").rglob("*.css"))
    found = [
        (sheet.name, address)
        for sheet in sheets
        for address in re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)", sheet.read_text(encoding="utf-8"))
    ]
    found += [(sheet.name, "@import") for sheet in sheets if "@import url(http" in sheet.read_text(encoding="utf-8")]
    assert sheets and found == []


def test_mathematics_come_along(site):
    text = (site / "derivatives.html").read_text(encoding="utf-8")
    assert 'class="math' in text and "mathjax/MathJax.js" in text
    assert (site / "_static" / "mathjax" / "config" / "TeX-AMS-MML_HTMLorMML-full.js").exists()
    assert list((site / "_static" / "mathjax" / "fonts").rglob("*.woff"))
