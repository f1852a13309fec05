"""The harness of the experiments: options, files, tables and times."""

import json
import os
import signal
import time
from datetime import date
from importlib import import_module

import numpy as np
import pytest
from rich.console import Console

import problems
from dynamics.simd import num_threads
from experiments.harness import (
    Experiment,
    PeerLost,
    PeerProcess,
    count,
    either,
    in_turns,
    medians,
    option,
    positive,
    quick,
    records,
    seed,
    table,
)
from experiments.harness.pictures import grouped_bars, lines, panels

REFUSED = {
    "fuzz": ["--count 0", "--seed -1", "--workers 0"],
    "ilqr_vs_ddp": ["--starts 0", "--workers 0", "--problems pendulumm"],
    "quadruped": ["--starts -1", "--parts legs"],
    "quadruped.iteration": ["--knots 0", "--repeats 0"],
    "rods": ["--duration 0", "--repeats 0", "--limit 0", "--systems worm"],
    "rods.knots": ["--repeats 0"],
    "soft_manipulator": ["--targets -1"],
}


def command(name):
    """The experiment of that name; the test is skipped if it needs a library that is not installed."""
    try:
        package = import_module(f"experiments.{name}")
        return (package if hasattr(package, "main") else import_module(f"experiments.{name}.__main__")).main
    except ImportError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", problems.experiments())
def test_commands(name, capsys):
    main = command(name)
    assert main.name == name and main.description.splitlines()[0].endswith(".")
    assert f"python -m experiments.{name} " in main.description.replace("\n", " ")
    assert main.parser().parse_args([]).out.parts[:2] in {("results", name.split(".")[0]), ("results", f"{name}.json")}
    assert f"python -m experiments.{name}" in main.parser().format_help()
    for wrong in REFUSED.get(name, ["--fast now"]):
        option, value = wrong.split()
        with pytest.raises(SystemExit, match="2"):
            main([option, value])
        message = capsys.readouterr().err
        assert any(x in message for x in (wrong, f"{option}: got {value}", f"{option}: invalid choice: '{value}'"))


def draw(results):
    figure, (axes,) = panels(1, 1, 4.0, 3.0)
    lines(axes, {"a": ([1, 10], [1.0, 2.0])}, "x [-]", "y [s]", "one_panel")
    return figure


def study(run):
    us = np.array([0.12345, run.options.seed])
    rows = [{"name": name, "N": np.int64(2), "us": us} for name in run.track("ab", "rows")]
    advance = run.counter("more", 3)
    advance()
    advance(2)
    run.show("by the way")
    run.file("notes.txt").write_text("notes")
    return {"rows": rows, "inside": num_threads()}


def experiment(**settings):
    options = [quick("little"), seed("rows"), count("--count", 3, "of rows"), option("--scale", type=positive)]
    return Experiment("study.part", "First line.\n\nMore.", study, options, **settings)


def test_files_and_report(tmp_path, capsys):
    shown = lambda results: (records("all rows", [{"name": "a", "us": 0.12345, "ratio": None}]),)  # noqa: E731
    threads = num_threads()
    main = experiment(tables=shown, pictures={"part.png": draw}, threads=1)
    assert main(["--seed", "4", "--out", str(tmp_path / "new")]) == 0
    assert num_threads() == threads
    data = json.loads((tmp_path / "new" / "part.json").read_text(encoding="utf-8"))
    assert data["rows"] == [{"name": name, "N": 2, "us": [0.12345, 4]} for name in "ab"]
    assert {"processor", "lanes", "numba", "numpy"} <= set(data["machine"]) and data["machine"]["threads"] == 1
    assert data["command"] == "python -m experiments.study.part --seed 4"
    assert date.fromisoformat(data["date"]) <= date.today()
    assert data["inside"] == 1 and (tmp_path / "new" / "part.png").stat().st_size > 5_000
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("by the way", "all rows", "0.123", " - \n"))
    assert all(f"wrote {tmp_path / 'new' / name}" in printed for name in ("part.json", "part.png", "notes.txt"))


def test_a_file_for_the_data(tmp_path):
    assert experiment()(["--out", str(tmp_path / "mine.json")]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.json", "notes.txt"]


def test_failures_are_told_by_the_exit_code(tmp_path):
    assert experiment(failed=lambda results: len(results["rows"]) == 2)(["--out", str(tmp_path)]) == 1


def test_options(capsys):
    parser = experiment().parser()
    options = parser.parse_args(["--quick", "--seed", "3"])
    assert (options.quick, options.seed, options.count, str(options.out)) == (True, 3, 3, "results/study")
    assert parser.description == "First line." and parser.prog == "python -m experiments.study.part"
    for arguments, complaint in (
        (["--count", "0"], "--count: got 0, expected at least 1"),
        (["--scale", "-2"], "--scale: got -2, expected a positive number"),
        (["--scale", "nan"], "--scale: got nan"),
        (["--fast"], "--fast"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(arguments)
        assert complaint in capsys.readouterr().err


def test_options_that_exclude_each_other(capsys):
    several = either(count("--starts", 9, "of each"), option("--few", dest="starts", action="store_const", const=2))
    parser = Experiment("study", None, study, [several]).parser()
    assert [parser.parse_args(x).starts for x in ([], ["--few"], ["--starts", "4"])] == [9, 2, 4]
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--few", "--starts", "4"])


def test_sections_of_tables():
    shown = table("title", ("name",), ("s", "N"), [[("a", 0.5, 2)], [("b", None, 12345)]], folded=())
    assert [list(column.cells) for column in shown.columns] == [["a", "b"], ["0.500", "-"], ["2", "12345"]]
    assert [row.end_section for row in shown.rows] == [True, True]
    assert [column.justify for column in shown.columns] == ["left", "right", "right"]


def test_units_in_brackets_are_no_markup():
    """[s] and [mm] are what they are, in headings of both kinds of tables and in titles."""
    console = Console(width=80)
    tables = table("t [s]", ("from [s]",), ("off [mm]",), [[("a", 1)]]), records("t [s]", [{"x": 1}], {"x": "off [mm]"})
    for shown in tables:
        with console.capture() as captured:
            console.print(shown)
        assert "t [s]" in captured.get() and "off [mm]" in captured.get()


def test_medians_take_turns():
    order = []
    times = medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0, rounds=9)
    assert set(times) == {"a", "b"} and all(0 < t < 1e-3 for t in times.values())
    turns = [x for i, x in enumerate(order) if i == 0 or order[i - 1] != x]
    assert turns[-6:] == ["a", "b"] * 3


def test_turns_and_what_warms_up():
    order = []
    samples = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, block=3, warm=1)
    assert order == 3 * [*"aaabbb"], "one turn that warms up, and two"
    assert {name: len(times) for name, times in samples.items()} == {"a": 4, "b": 4}


def test_bars_by_group_and_label():
    _, (axes,) = panels(1, 1, 4.0, 3.0)
    figures = ("x", "k", 1), ("y", "k", 2), ("x", "l", 3)
    rows = [{"robot": robot, "kernel": kernel, "t": t} for robot, kernel, t in figures]
    first, second = grouped_bars(axes, rows, "robot", "kernel", lambda row: row["t"])
    assert [bar.get_height() for bar in first] == [1, 2] and len(second) == 1
    assert [text.get_text() for text in axes.get_xticklabels()] == ["x", "y"]


# ------------------------------------------------------------------------------------------------ peers in processes
def stand_in(wrong=None):
    """A peer that does what it is asked."""
    if wrong is not None:
        raise wrong
    deeds = {
        "abort": os.abort, "kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "leave": lambda: os._exit(3),
        "raise": lambda: {}["nothing"], "hang": lambda: time.sleep(600.0),
    }  # fmt: skip
    return lambda deed, *values: (os.getpid(), sum(values)) if deed == "add" else deeds[deed]()


def test_a_peer_that_is_lost():
    """Its death, or what it raises, is told, and the next question finds one that answers."""
    with PeerProcess(stand_in) as peer:
        process, found = peer.ask("add", 1, 2, seconds=60.0)
        assert found == 3 and process != os.getpid()
        with pytest.raises(PeerLost, match=r"^raised: KeyError: 'nothing'$"):
            peer.ask("raise", seconds=60.0)
        assert peer.ask("add", seconds=60.0) == (process, 0)
        for deed, reason in (("abort", "died: SIGABRT"), ("kill", "died: SIGKILL"), ("leave", "died: exit code 3")):
            with pytest.raises(PeerLost, match=rf"^{reason}$"):
                peer.ask(deed, seconds=60.0)
        with pytest.raises(PeerLost, match=r"^out of time$"):
            peer.ask("hang", seconds=0.1)
        last, found = peer.ask("add", 4, seconds=60.0)
        assert found == 4 and last != process
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_a_peer_that_cannot_be_made():
    peer = PeerProcess(stand_in, ValueError("no\nsuch peer"))
    for _ in range(2):
        with pytest.raises(PeerLost, match=r"^raised: ValueError: no such peer$"):
            peer.ask("add", seconds=60.0)
    peer.close()
