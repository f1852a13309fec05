"""The distribution under its own name: found whatever else is installed, and what it says of itself is true."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dynamics
import problems
import trajopt
from dynamics import distribution
from trajopt.command_line.cli import main

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = "trajopt\ndynamics\nproblems\n"


def install(site, name, packages=None, version="1.2", origin=None, requires=()):
    """The metadata that pip leaves of a distribution."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    header = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (folder / "METADATA").write_text("\n".join([*header, *(f"Requires-Dist: {line}" for line in requires)]) + "\n")
    if packages is not None:
        (folder / "top_level.txt").write_text(packages)
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty site-packages, the only place where packages are looked for; the project's files stay where they are."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])
    for function in (distribution.distribution, distribution.version):
        function.cache_clear()
    yield folder
    for function in (distribution.distribution, distribution.version):
        function.cache_clear()


def editable(folder):
    return {"url": Path(folder).as_uri(), "dir_info": {"editable": True}}


# ------------------------------------------------------------------------------------------------ which one it is
def test_versions_are_those_of_the_distribution():
    assert trajopt.__version__ == dynamics.__version__ == problems.__version__ == PROJECT["version"]
    for package in (trajopt, dynamics, problems):
        with pytest.raises(AttributeError, match="has no attribute '__versio__'"):
            _ = package.__versio__


@pytest.mark.parametrize("beside", [True, False])
def test_it_is_found_beside_strangers_and_other_copies(site, monkeypatch, beside):
    """In site-packages with its files, or by the folder that an editable installation points to."""
    install(site, "trajopt", "trajopt\n", version="0.0.10")
    install(site, "problems", version="3.0")
    install(site, "numpy", "numpy\n")
    (site / "broken-1.dist-info").mkdir()
    install(site, "another-copy", OURS, origin=editable("/elsewhere/a folder"))
    monkeypatch.setattr(distribution, "ROOT", site if beside else ROOT)
    needs = ["numpy>=1.26", 'viser>=1.0; extra == "view"', "dask[distributed]>=2024.1 ; extra == 'cluster'"]
    install(site, "renamed", OURS, version="7.1", origin=None if beside else editable(ROOT), requires=needs)
    assert distribution.distribution().metadata["Name"] == "renamed" and trajopt.__version__ == "7.1"
    assert distribution.how_to_install("view") == "pip install 'viser>=1.0'"
    assert distribution.how_to_install("cluster") == "pip install 'dask[distributed]>=2024.1'"
    assert distribution.intruders() == ["problems 3.0", "trajopt 0.0.10"]


def test_a_folder_that_was_never_installed(site, monkeypatch):
    install(site, "trajopt", "trajopt\n", version="0.0.10", origin=editable(ROOT))
    assert distribution.distribution() is None and trajopt.__version__ == PROJECT["version"]
    assert distribution.how_to_install("view") == f"pip install '{ROOT}[view]'"
    distribution.version.cache_clear()
    monkeypatch.setattr(distribution, "ROOT", site)
    assert trajopt.__version__ == "unknown"


def test_the_command_shows_the_version_and_warns_of_a_stranger(site, capsys):
    install(site, PROJECT["name"], OURS, version="7.1", origin=editable(ROOT))
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"trajopt 7.1 from {ROOT} (distribution {PROJECT['name']})\n", "")
    install(site, "trajopt", "trajopt\n", version="0.0.10")
    assert main(["--version"]) == 0
    assert "trajopt 0.0.10 is installed too, a different project" in capsys.readouterr().err


@pytest.mark.parametrize("extra", ["view", "jax", "torch", "cluster"])
def test_extras_that_messages_advise(site, extra):
    extras = PROJECT["optional-dependencies"]
    requires = [f'{package}; extra == "{name}"' for name, packages in extras.items() for package in packages]
    install(site, PROJECT["name"], OURS, origin=editable(ROOT), requires=requires)
    assert distribution.how_to_install(extra) == "pip install " + " ".join(f"'{package}'" for package in extras[extra])


# ------------------------------------------------------------------------------------------------ what it says
def test_no_text_advises_a_name_that_is_not_ours():
    texts = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]
    for folder in ("trajopt", "dynamics", "problems", "examples", "experiments"):
        texts += (ROOT / folder).rglob("*.py")
    wrong = re.compile(r"install\b[^\n]*['\"\s](trajopt|dynamics|problems)(\[\w+\])?(['\"`\s]|$)")
    told = {path.name: wrong.findall(path.read_text(encoding="utf-8")) for path in texts}
    assert {name: len(found) for name, found in told.items() if found} == {"README.md": 1}  # where it says never


def test_the_name_is_no_package_of_anyone():
    assert PROJECT["name"] not in distribution.PACKAGES
    assert not any(line.startswith("License ::") for line in PROJECT["classifiers"])  # clash with an SPDX expression


def test_the_readme_has_no_links_into_the_checkout():
    """It is the description of the wheel, where such links lead nowhere; of a picture its text remains."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"(?<!!)\[[^]]*\]\((?!https?://|#)[^)]*\)", text) == []
    for path in re.findall(r"!\[[^]]+\]\(([^)]*)\)", text):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"`((?:examples|experiments|problems)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_citation_is_that_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0" and {"message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"] and citation["keywords"] == PROJECT["keywords"]


# ------------------------------------------------------------------------------------------------ what it brings
def test_models_that_come_with_it():
    assert "arm6" in problems.model_names()
    for name in problems.model_names():
        assert dynamics.load_urdf(problems.model_path(name)).nv > 0
    with pytest.raises(ValueError, match=r"name: got 'arm', expected one of .*'arm6'.*; did you mean 'arm6'"):
        problems.model_path("arm")
    with pytest.raises(ValueError, match=r"name: got '\.\./arm6', expected"):
        problems.model_path("../arm6")


def test_experiments_are_those_of_the_checkout(tmp_path, monkeypatch):
    for name in problems.experiments():
        path = ROOT.joinpath("experiments", *name.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name
    assert {"convergence", "backward_pass", "derivatives.first_order"} <= set(problems.experiments())
    monkeypatch.setattr(problems, "FOLDER", tmp_path / "problems")
    assert problems.experiments() == {}
