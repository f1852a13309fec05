"""The gallery has every problem: a picture, five lines whose figures are those of docstrings, and what was measured."""

import json
import re
from importlib import import_module

import pytest
from PIL import Image

import problems
from experiments.gallery.pictures import SIZE, Look, picture_name
from experiments.gallery.study import KINDS, LINES, SOLVERS, TEXTS, look_of, texts
from tests.docs.built import as_path, page

FOLDER = TEXTS.parent
FOUND = json.loads((FOLDER / "gallery.json").read_text(encoding="utf-8"))["problems"]
LARGEST, ALTOGETHER = 100_000, 4_000_000  # bytes
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
SOLVED = ("pendulum", "arm", "car_parking", "quadruped_stand", "humanoid_stand", "soft_manipulator_reach", "four_bar")


def docstrings(text):
    """The docstrings of the modules that a text names, and of those that these name."""
    found, left = {}, set(re.findall(r"`([\w.]+)`", text))
    while left:
        name = left.pop()
        try:
            found[name] = import_module(f"problems.{name}").__doc__ or ""
        except ImportError:
            found[name] = ""
        left |= set(re.findall(r"`([\w.]+)`", found[name])) - set(found)
    return " ".join(found.values())


def figures(text):
    """Numbers of a text; a letter before one makes it a name."""
    return {float(match[0]) for match in NUMBER.finditer(re.sub(r"(?<![\d.])[A-Za-z_]\w*", " ", text))}


def test_every_problem_is_there():
    assert list(FOUND) == problems.names() and sorted(texts()) == problems.names()
    known = {"kind", *LINES, *Look._fields}
    assert {key for text in texts().values() for key in text} <= known
    shown = re.findall(r"^```{gallery} (\w+)$", (FOLDER / "index.md").read_text(encoding="utf-8"), re.M)
    assert tuple(shown) == KINDS and {text["kind"] for text in texts().values()} == set(KINDS)


def test_pictures_are_there_and_small():
    pictures = {path.name: path for pattern in ("*.png", "*.webp", "*.gif") for path in FOLDER.glob(pattern)}
    assert sorted(pictures) == sorted(record["picture"] for record in FOUND.values())
    sizes = {name: path.stat().st_size for name, path in pictures.items()}
    assert [name for name, size in sizes.items() if size > LARGEST] == [] and sum(sizes.values()) <= ALTOGETHER


@pytest.mark.parametrize("name", problems.names())
def test_a_picture_is_what_the_text_asks_for(name):
    look = look_of(texts()[name])
    assert FOUND[name]["picture"] == picture_name(name, look)
    with Image.open(FOLDER / FOUND[name]["picture"]) as picture:
        assert picture.size == SIZE and getattr(picture, "n_frames", 1) == (look.frames if look.moving else 1)
        assert len(set(picture.convert("L").tobytes())) > 4


@pytest.mark.parametrize("name", problems.names())
def test_five_lines_have_the_figures_of_docstrings(name):
    text = texts()[name]
    lines = [text[key] for key in LINES]
    assert len(lines) == 5 and all(line.endswith(".") and 10 < len(line) < 160 for line in lines)
    own = f"`{name}` " + " ".join(lines)
    assert figures(" ".join(lines)) - figures(docstrings(own)) == set()


def test_figures_of_nothing_are_found():
    assert figures("`arm` in 3 m/s, 5e-3 of RK4") == {3.0, 5e-3}
    assert 838.0 in figures(docstrings("`quadrotor_minimum_time`")) and 839.0 not in figures(docstrings("`quadrotor`"))


BESIDE = {"unicycle_obstacles": 2e-4}
"""Problems with two minima so close to each other, of which iLQR finds the dearer one."""


@pytest.mark.parametrize("name", problems.names())
def test_both_solvers_end_at_one_minimum(name):
    record = FOUND[name]
    assert list(record["solvers"]) == list(SOLVERS) and record["turns"] >= 3
    ilqr, ddp = record["solvers"].values()
    assert ilqr["status"] == ddp["status"] == "converged"
    assert ddp["cost"] == pytest.approx(ilqr["cost"], rel=BESIDE.get(name, 1e-5))
    assert name not in BESIDE or ddp["cost"] < ilqr["cost"]
    assert min(s["seconds"] for s in (ilqr, ddp)) > 0.0 and record["date"] > "2020" and record["processor"]


@pytest.mark.docs
@pytest.mark.parametrize("name", SOLVED)
def test_solves_are_those_of_the_json(name):
    problem = problems.make(name)
    for key, solver in SOLVERS.items():
        solution, told = solver.solve(problem), FOUND[name]["solvers"][key]
        assert solution.cost == pytest.approx(told["cost"], rel=1e-6)
        assert solution.iterations == pytest.approx(told["iterations"], abs=2, rel=0.1)  # processors differ in rounding
        assert str(solution.status) == told["status"]


@pytest.mark.docs
def test_cards_lead_to_pages(site):
    index = as_path(site, "gallery/index.html")
    for name, record in FOUND.items():
        assert f"problems/{name}.html" in page(index).links
        counts = (record["solvers"][key]["iterations"] for key in SOLVERS)
        ilqr, ddp = (f"{key}: {count} iterations" for key, count in zip(("iLQR", "DDP"), counts, strict=True))
        assert re.search(rf"{ilqr}, [\d.]+ m?s {ddp}, [\d.]+ m?s", page(index).text)


@pytest.mark.docs
@pytest.mark.parametrize("name", problems.names())
def test_a_page_says_it_all(site, name):
    text, record = page(as_path(site, f"gallery/problems/{name}.html")).text, FOUND[name]
    plain = re.sub(r"[`\s]", "", text)
    assert [line for line in LINES if re.sub(r"[`\s]", "", texts()[name][line]) not in plain] == []
    for command in (f"trajopt solve {name} --animate", f"trajopt solve {name} --report"):
        assert command.replace(" ", "") in plain
    for told in record["solvers"].values():
        assert f"{told['status']} {told['iterations']} " in text and f"{told['cost']:.6g}" in text
    assert f"on {record['date']}; {record['processor']}" in text
    assert "Set-up" in text
