"""Every public name has its place in the reference, and docstrings become reStructuredText without loss."""

from importlib import import_module

import pytest

from docs.extensions.docstrings import escaped, restructured, skip
from docs.extensions.public_names import full_name
from docs.extensions.reference_pages import PACKAGES, SUBJECTS, names_of, subject_of
from tests.docs.built import as_path, page


def test_no_public_name_is_missing():
    named = [name for subject in SUBJECTS for name in names_of(subject)]
    assert sorted(named) == sorted((p, n) for p in PACKAGES for n in import_module(p).__all__)


def test_a_new_module_without_subject_is_named():
    assert subject_of("trajopt.problem.limits").slug == "constraints"
    with pytest.raises(LookupError, match=r"trajopt\.elsewhere belongs to no subject"):
        subject_of("trajopt.elsewhere")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("J_'f * |u|", r"J\_'f \* \|u\|"),
        ("of `fx_`, a\\b", r"of ``fx_``, a\\b"),
        ("the `Knot`s", r"the ``Knot``\ s"),
        ("``max_iterations=1``", "``max_iterations=1``"),
        ("a lone ` sign", r"a lone \` sign"),
    ],
)
def test_plain_text_stays_plain(text, expected):
    assert escaped(text) == expected


def test_sections_and_equations():
    lines = "Summary.\n\ntau = M a      [Kim 2012]\n\nParameters\n----------\nq, v : (n,)\n    Where.\n".split("\n")
    assert [line for line in restructured(lines) if line] == [
        "Summary.", "::", "    tau = M a      [Kim 2012]", ":Parameters:", "    **q, v** : (n,)", "        Where.",
    ]  # fmt: skip


def test_a_long_first_line_goes_on():
    first = "x : (6, 6), symmetric and positive definite, or a function of s = X / length that returns one: what"
    lines = f"Summary.\n\nParameters\n----------\n{first}\n    strains ask.\ny : int\n    Of x.\n".split("\n")
    assert [line.strip() for line in restructured(lines) if line][2:] == [
        "**x**", first.removeprefix("x : "), "strains ask.", "**y** : int", "Of x.",
    ]  # fmt: skip


def test_examples_are_code():
    lines = "Summary.\n\nExamples\n--------\n>>> 2 * 2\n4\n".split("\n")
    assert [line.strip() for line in restructured(lines) if line] == [
        "Summary.", ":Examples:", ".. code-block:: pycon", ">>> 2 * 2", "4",
    ]  # fmt: skip


def test_members_that_say_nothing_are_left_out():
    tool = import_module("dynamics").FrameTranslation
    assert skip(None, "class", "kernels", tool.kernels, False, None)
    assert not skip(None, "class", "evaluate", tool.evaluate, False, None)
    assert not skip(None, "class", "reads_dynamics", tool.reads_dynamics, False, None)


KNOWN = dict.fromkeys(
    ["trajopt.Problem", "trajopt.Solution", "trajopt.Solution.shifted", "dynamics.load_urdf", "dynamics.combine",
     "dynamics.energies", "dynamics.rods.Tendon", "dynamics.rods.energies", "dynamics.rods.momentum"]
)  # fmt: skip


@pytest.mark.parametrize(
    "text, context, expected",
    [
        ("Problem", "", "trajopt.Problem"),
        ("Problem.horizon", "", "trajopt.Problem"),
        ("solution.shifted()", "", "trajopt.Solution.shifted"),
        ("shifted", "trajopt.Solution", "trajopt.Solution.shifted"),
        ("load_urdf", "", "dynamics.load_urdf"),
        ("rods.momentum(model, q)", "", "dynamics.rods.momentum"),
        ("combine", "", None),
        ("combine(robots)", "", "dynamics.combine"),
        ("energies(q)", "dynamics.rods", "dynamics.rods.energies"),
        ("Tendon", "", "dynamics.rods.Tendon"),
        ("hessian='tensor'", "", None),
        ("problem.py", "", None),
    ],
)
def test_literals_are_links(text, context, expected):
    assert full_name(text, KNOWN, context) == expected


@pytest.mark.docs
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.slug)
def test_every_name_stands_on_its_page(site, subject):
    anchors = page(as_path(site, f"reference/{subject.slug}.html")).anchors
    assert {f"{package}.{name}" for package, name in names_of(subject)} <= anchors
