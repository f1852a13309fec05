"""The page of benchmarks says what the JSON of the experiments does, with machine and date."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.built import as_path, page

ROOT = Path(__file__).parents[2]
SHOWN = re.findall(r"^```{benchmark} (\w+)$", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), re.M)


def test_every_json_is_shown():
    """On the page of benchmarks, or on one that speaks of what was measured."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    shown = {name for text in pages for name in re.findall(r"^```{benchmark} (\w+)$", text, re.M)}
    assert set(SHOWN) <= shown
    assert shown == {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.json")}


@pytest.mark.docs
@pytest.mark.parametrize("name", SHOWN)
def test_command_date_and_machine_stand_above_a_table(site, name):
    found = json.loads((ROOT / "docs" / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))
    text = page(as_path(site, "benchmarks.html")).text
    start = text.index(f"{found['command']} , on {found['date']}; {found['machine']['processor']}")
    assert re.search(r"\d\.\d", text[start + 120 : start + 2000])


@pytest.mark.docs
def test_figures_are_those_of_the_json(site):
    found = json.loads((ROOT / "docs" / "benchmarks" / "bench.json").read_text(encoding="utf-8"))
    text = page(as_path(site, "benchmarks.html")).text
    shown = [f"{row['quantity']} {row['microseconds']:.3f}" for row in found["derivatives"]]
    assert shown and [each for each in shown if each not in text] == []
