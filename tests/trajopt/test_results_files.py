"""Files of solutions: everything comes back, and what is not such a file is refused."""

import json
import zipfile
from dataclasses import dataclass, fields, replace
from io import BytesIO
from typing import NamedTuple

import numpy as np
import pytest

from tests.reference.mutations import archive, archives_changed, array_file, bytes_changed, members_of
from tests.trajopt.cases import pendulum, tip
from trajopt import DDP, ILQR, BatchSolution, ControlBounds, Policy, Solution, StateBounds
from trajopt.results import archives
from trajopt.results import results_files as files
from trajopt.results.policy import Hold
from trajopt.results.records import ConstraintReport, Status
from trajopt.results.results_files import save_solution


@pytest.fixture(scope="module")
def solution():
    return DDP(max_iterations=6).solve(tip(10))


def assert_same(first, second):
    assert type(first) is type(second) or not isinstance(first, (dict, tuple, np.ndarray))
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, tuple):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    else:
        assert first == second


def edited(path, **changes):
    """The file with some of its arrays replaced, or left out where None."""
    with np.load(path) as data:
        arrays = dict(data) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_every_field_comes_back(solution, tmp_path):
    path = save_solution(solution, tmp_path / "new" / "folder" / "numbers")
    assert path == tmp_path / "new" / "folder" / "numbers" and [path] == list(path.parent.iterdir())
    loaded = Solution.load(str(path))
    assert loaded.problem is None
    for field in fields(Solution):
        if field.name != "problem":
            assert_same(getattr(solution, field.name), getattr(loaded, field.name))
    assert isinstance(loaded.status, Status) and len(loaded.log) > 2
    np.testing.assert_array_equal(loaded.history("cost"), solution.history("cost"))


def test_files_are_plain_arrays_with_the_names_of_the_fields(solution, tmp_path):
    with np.load(save_solution(solution, tmp_path / "a.npz"), allow_pickle=False) as data:
        np.testing.assert_array_equal(data["K"], solution.K)
        np.testing.assert_array_equal(data["log_alpha"], solution.history("alpha"))
        assert float(data["time_total"]) == solution.timings["total"]
        assert (str(data["problem_name"]), float(data["dt"]), int(data["horizon"])) == ("tip", 0.05, 10)


@pytest.mark.parametrize("us", [None, [[1e200], [1e200]]])
def test_solutions_without_any_iteration_come_back(us, tmp_path):
    solution = ILQR(max_iterations=0).solve(pendulum(2), us)
    loaded = Solution.load(save_solution(solution, tmp_path / "a.npz"))
    assert loaded.status == solution.status and loaded.log == solution.log
    assert_same(solution.cost, loaded.cost)


def test_constraints_come_back(solution, tmp_path):
    rng = np.random.default_rng(0)
    reports = tuple(
        ConstraintReport(name, np.arange(len(r)), r, np.full(r.shape, -np.inf), r - 0.5, r**2, 10.0)
        for name, r in (("tool", rng.standard_normal((10, 3))), ("floor", rng.standard_normal((1, 1))))
    )
    path = save_solution(replace(solution, constraints=reports), tmp_path / "a.npz")
    loaded = Solution.load(path)
    assert [type(report) for report in loaded.constraints] == [ConstraintReport] * 2
    for report, original in zip(loaded.constraints, reports, strict=True):
        assert_same(original._asdict(), report._asdict())
    assert loaded.violation == replace(solution, constraints=reports).violation > 0.0
    with np.load(path) as data:
        np.testing.assert_array_equal(data["constraints.1.values"], reports[1].values)


@dataclass(frozen=True)
class Larger(Solution):
    """A solution with more to keep, of every kind."""

    slope: np.ndarray | None = None
    feasible: bool = True
    duals: dict | None = None
    report: tuple = ()
    missing: np.ndarray | None = None


class NamedPair(NamedTuple):
    """Would come back as a plain tuple."""

    first: int
    second: int


def larger(solution, **more):
    return Larger(**{field.name: getattr(solution, field.name) for field in fields(Solution)}, **more)


def test_added_fields_are_saved_where_present(solution, tmp_path, monkeypatch):
    more = {
        "slope": np.arange(22.0).reshape(11, 2),
        "feasible": False,
        "duals": {"arm.tool": {"lower": np.ones((10, 1)), "name": "tool"}, "none": {}, "mask": np.array([True])},
        "report": (1, 2.5, None, np.array(["a", "bc"])),
    }
    path = save_solution(larger(solution, **more), tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"another trajopt, with duals, feasible, .* too much, nothing missing"):
        Solution.load(path)
    loaded = Larger.load(path)
    for name, value in more.items():
        assert_same(value, getattr(loaded, name))
    assert loaded.missing is None
    # files from before those fields take their defaults
    assert Larger.load(save_solution(solution, path)).slope is None


@pytest.mark.parametrize(
    "value", [object(), np.array([None]), {1, 2}, {"inner": [lambda: 0]}, Status, (NamedPair(1, 2),)]
)
def test_what_no_array_holds_is_refused(solution, tmp_path, value):
    with pytest.raises(TypeError, match=r"duals.*expected numbers, text or arrays"):
        save_solution(larger(solution, duals=value), tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("member", range(1, 6))
def test_an_interrupt_of_a_save_stays_one(solution, tmp_path, monkeypatch, member):
    whole, written = archives.crc32, []

    def interrupted(*arguments):
        written.append(arguments)
        if len(written) == member:
            raise KeyboardInterrupt
        return whole(*arguments)

    for save in (solution.save, solution.policy().save):
        written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(archives, "crc32", interrupted)
            with pytest.raises(KeyboardInterrupt):
                save(tmp_path / "a.npz")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("largest", [archives.LARGEST, 0])
def test_archives_are_those_of_numpy(rng, monkeypatch, largest):
    """Of small arrays, and of large ones, which numpy writes: in either way, and in either direction."""
    monkeypatch.setattr(archives, "LARGEST", largest)
    arrays = {
        "matrix": rng.normal(size=(3, 4)), "Fortran": np.asfortranarray(rng.normal(size=(3, 4))),
        "strided": rng.normal(size=(6, 4))[::2, 1:3], "none": np.zeros((0, 3)), "number": np.array(3),
        "flags": np.array([True, False]), "text": np.array(["x", "größer"]), "no text": np.array(""),
        "other bytes": np.arange(3, dtype=">i4"), "ä.b": rng.normal(size=7).astype(np.float32),
    }  # fmt: skip
    ours, theirs = archives.archive_of(arrays), BytesIO()
    np.savez(theirs, **arrays)
    with zipfile.ZipFile(BytesIO(ours)) as archive:
        assert archive.testzip() is None
    with np.load(BytesIO(ours)) as by_numpy, np.load(BytesIO(theirs.getvalue())) as expected:
        for found in by_numpy, archives.read_archive(BytesIO(ours)), archives.read_archive(theirs):
            assert list(found) == list(arrays)
            for name, array in arrays.items():
                np.testing.assert_array_equal(found[name], array)
                assert found[name].dtype == array.dtype and found[name].flags.writeable
                assert found[name].flags.f_contiguous == expected[name].flags.f_contiguous


def test_a_write_that_fails_leaves_the_old_file(solution, tmp_path, monkeypatch):
    path = save_solution(solution, tmp_path / "a.npz")
    before = path.read_bytes()

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        save_solution(replace(solution, cost=0.0), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_file_is_cut_anywhere(solution, tmp_path):
    path = save_solution(solution, tmp_path / "a.npz")
    content = path.read_bytes()
    for length in (0, 3, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"a\.npz: got a file that is cut short or not a solution file"):
            Solution.load(path)
    path.write_bytes(content[:2000] + bytes(200) + content[2200:])
    with pytest.raises(ValueError, match=r"a\.npz: got a file that is cut short"):
        Solution.load(path)


def test_files_of_others_are_refused(solution, tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(FileNotFoundError):
        Solution.load(path)
    with open(path, "wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(ValueError, match="not a solution file"):
        Solution.load(path)
    path.write_text("xs, us\n1, 2\n")
    with pytest.raises(ValueError, match="not a solution file"):
        Solution.load(path)
    np.savez(path, xs=solution.xs)
    with pytest.raises(ValueError, match=r"without the mark 'trajopt\.Solution'"):
        Solution.load(path)
    save_solution(solution, path)
    edited(path, us=np.array([object()]))  # a pickle, which is never opened
    with pytest.raises(ValueError, match="not a solution file"):
        Solution.load(path)


def header(shape):
    stream = BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize(
    "member, content, compression",
    [
        ("junk.npy", header((1 << 21,)) + bytes(1 << 24), zipfile.ZIP_DEFLATED),
        ("junk.npy", header((1 << 40,)) + bytes(64), zipfile.ZIP_STORED),
        ("junk.npy", header((2, 2)) + bytes(64), zipfile.ZIP_STORED),
        ("junk.npy", b"\x93NUMPY\x03\x00" + bytes(64), zipfile.ZIP_STORED),
        ("junk.npy", b"", zipfile.ZIP_STORED),
        ("junk", header((1,)) + bytes(8), zipfile.ZIP_STORED),
    ],
)
def test_members_are_no_larger_than_they_say_and_than_the_file(
    solution, tmp_path, monkeypatch, member, content, compression
):
    path = save_solution(solution, tmp_path / "a.npz")
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr(member, content)
    monkeypatch.setattr(archives, "_array", None)  # nothing is read
    with pytest.raises(ValueError, match=r"a\.npz: got a file that is cut short or not a solution file \("):
        Solution.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": np.array("[" * 100_000 + "]" * 100_000)},
        {"layout": np.array("[]")},
        {"layout": np.array("{")},
        {"layout": None},
        {"xs": None},
        {"xs": np.zeros((11, 2, 1))},
        {"us": np.zeros(10)},
        {"us": np.zeros((9, 1))},
        {"K": np.zeros((10, 1, 1))},
        {"K": np.zeros((10, 1, 2), np.float32)},
        {"Vxx": np.zeros((11, 2, 3))},
        {"gaps": np.array(["a"])},
        {"cost": np.zeros(2)},
        {"cost": np.array("much")},
        {"status": np.array("well")},
        {"status": np.zeros(())},
        {"iterations": np.array(1.5)},
        {"message": np.array(1)},
        {"log_cost": np.zeros(1)},
        {"log_cost": np.zeros(())},
        {"time_total": np.array("long")},
        {"format": np.zeros(3)},
        {"format_version": np.array("new")},
    ],
)
def test_whatever_else_is_in_a_file_is_a_value_error(solution, tmp_path, changes):
    path = save_solution(solution, tmp_path / "a.npz")
    edited(path, **changes)
    with pytest.raises(ValueError, match=r"a\.npz"):
        Solution.load(path)


@pytest.mark.parametrize("field", ["log", "xs", "timings", "status", "constraints", "cost"])
@pytest.mark.parametrize("node", ['"array"', '"scalar"', "{}", "[]", "[[]]", '{"a": null}', "null", "1", '"xs"'])
def test_layouts_of_others_are_value_errors(solution, tmp_path, field, node):
    path = save_solution(solution, tmp_path / "a.npz")
    with np.load(path) as data:
        layout = json.loads(str(data["layout"]))
    if layout[field] == json.loads(node):
        return
    edited(path, layout=np.array(json.dumps(layout | {field: json.loads(node)})))
    try:
        Solution.load(path)
    except ValueError as error:
        assert "a.npz" in str(error)
    else:
        assert field == "timings"  # a dict of nothing


def test_a_solution_of_arrays_that_do_not_fit_is_refused(solution):
    """Before a kernel reads beyond one of them."""
    for problem in solution.problem, None:
        whole = replace(solution, problem=problem)
        for name in ("xs", "us", "k", "K", "Vx", "Vxx", "gaps"):
            right = getattr(solution, name)
            narrow = right[..., :-1] if problem is not None or name in ("K", "Vxx") else right[0]
            for wrong in (right[:-1], narrow, right.tolist(), right.astype(np.float32), right[None]):
                with pytest.raises(ValueError, match=r"^(xs|us|k|K|Vx|Vxx|gaps): got .*, expected"):
                    replace(whole, **{name: wrong})
    rows, ones = np.ones((10, 2)), np.ones(10)
    good = ConstraintReport("tool", np.arange(10), rows, rows, rows, rows)
    assert replace(solution, constraints=(good,)).constraints[0] is good
    for wrong in ({"knots": np.arange(11)}, {"knots": np.arange(10) + 5}, {"knots": ones}, {"multipliers": rows[:, :1]},
                  {"values": ones}, {"factors": np.ones(3)}):  # fmt: skip
        with pytest.raises(ValueError, match=r"^constraints\[0\]\.\w+: got .*, expected"):
            replace(solution, constraints=(good._replace(**wrong),))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of each kind, with how it is read and how what was read is used."""
    problem, folder = pendulum(6), tmp_path_factory.mktemp("saved")
    limited = replace(problem, constraints=[ControlBounds(-5.0, 5.0), StateBounds(problem.system, -9.0, 9.0)])
    solution = DDP(max_iterations=3).solve(limited)
    policy = replace(solution.policy(), hold=Hold(solution.xs[-1], solution.us[-1], solution.K[-1]))
    batch = DDP(max_iterations=3).prepare(limited).solve_batch(np.zeros((2, 2)))
    batch = replace(batch, parameters={"mass": np.ones(2), "names": ["a", 1.0, None]})
    return {
        "solution": (
            solution.save(folder / "s.npz"),
            Solution.load,
            lambda s: (str(s), repr(s.constraints), s.history("cost")),
        ),
        "policy": (
            policy.save(folder / "p.npz"),
            Policy.load,
            lambda p: (p(0.11, p.reference(0.11)), p(9.0, p.xs[0]), repr(p)),
        ),
        "batch": (batch.save(folder / "b.npz"), BatchSolution.load, lambda b: (b.success_rate, repr(b))),
    }


@pytest.mark.parametrize("kind", ["solution", "policy", "batch"])
def test_every_damaged_file_is_a_value_error_with_its_name(saved, kind, rng, tmp_path):
    """Bits, members, headers, types, shapes and layouts, at random; what is still read can be used."""
    whole, load, use = saved[kind]
    content, path, refused = whole.read_bytes(), tmp_path / "damaged.npz", 0
    use(load(whole))
    for what, changed in [*bytes_changed(content, rng, 60), *archives_changed(content, rng, 150)]:
        path.write_bytes(changed)
        try:
            found = load(path)
        except ValueError as error:
            refused += 1
            assert "damaged.npz" in str(error) and "\x1b" not in str(error), what
        else:
            use(found)
    assert refused > 100


@pytest.mark.parametrize("kind", ["solution", "policy", "batch"])
def test_sizes_of_what_takes_no_bytes_are_those_of_the_file(saved, kind):
    whole, load, _ = saved[kind]
    members = members_of(whole.read_bytes())
    first = next(iter(members))
    for description, shape in (
        ("'<U0'", "(1099511627776,)"), ("'|S0'", "(1099511627776,)"), ("[]", "(1099511627776,)"),
        ("'<f8'", "(0, 1099511627776)"), ("'<f8'", "(True,)"),
    ):  # fmt: skip
        changed = archive([*(members | {first: array_file(description, shape)}).items()])
        with pytest.raises(ValueError, match=r"^source: got a file that is cut short or not a \w+ file"):
            load(BytesIO(changed))


@pytest.mark.parametrize("kind", ["solution", "policy", "batch"])
def test_encrypted_members_folders_and_devices_are_refused(saved, kind, tmp_path):
    whole, load, _ = saved[kind]
    raw = bytearray(whole.read_bytes())
    raw[raw.rindex(b"PK\1\2") + 8] ^= 1
    with pytest.raises(ValueError, match=r"source: .*neither compressed nor encrypted"):
        load(BytesIO(raw))
    for place in tmp_path, "/dev/zero":
        with pytest.raises(ValueError, match=rf"{place}: .*got a folder, a device or a pipe, expected a file"):
            load(place)


def test_types_in_records_are_those_declared(solution, tmp_path):
    report = ConstraintReport("tool", np.arange(10), *np.zeros((4, 10, 2)), components=("x", "y"))
    path = save_solution(replace(solution, constraints=(report,)), tmp_path / "a.npz")
    content = path.read_bytes()
    for field, value in {
        "name": np.array(3),
        "penalty": np.array("x"),
        "components.0": np.array(1.5),
        "cost": np.array("2026-01-01", "M8[s]"),
    }.items():
        edited(path, **{field if field == "cost" else f"constraints.0.{field}": value})
        with pytest.raises(ValueError, match=rf"a\.npz: got .*{field.partition('.')[0]} of \w+, expected \w+"):
            Solution.load(path)
        path.write_bytes(content)
    for wrong in {"components": ("x",)}, {"weights": np.zeros(3)}:
        with pytest.raises(ValueError, match=r"^constraints\[0\]\.(components|weights): got"):
            replace(solution, constraints=(report._replace(**wrong),))
    # times are those that a solver takes
    for times in {}, {"total": 1.0}, {"rollouts": 0.5}:
        assert "ms" in str(Solution.load(save_solution(replace(solution, timings=times), path)))


def test_versions(solution, tmp_path):
    path = save_solution(solution, tmp_path / "a.npz")
    edited(path, format_version=np.array(2))
    with pytest.raises(ValueError, match="format 2 of a newer trajopt, expected at most 1"):
        Solution.load(path)
    edited(path, format_version=np.array(1), layout=np.array('{"xs": "array"}'))
    with pytest.raises(ValueError, match=r"with nothing too much, us, .*K, .* missing"):
        Solution.load(path)
    save_solution(solution, path)
    with np.load(path) as data:
        layout = str(data["layout"])
    edited(path, layout=np.array(layout.replace('"alpha"', '"colour"')), log_colour=np.zeros(len(solution.log)))
    with pytest.raises(ValueError, match="with log_colour too much, log_alpha missing"):
        Solution.load(path)


def test_a_problem_that_fits(solution, tmp_path):
    path = save_solution(solution, tmp_path / "a.npz")
    problem = tip(10)
    loaded = Solution.load(path, problem)
    assert loaded.problem is problem
    again = DDP().solve(problem, loaded.us)
    assert again.converged and again.cost <= solution.cost
    # a solution without its problem can be written again
    assert Solution.load(save_solution(Solution.load(path), path), problem).problem is problem


def test_a_problem_that_does_not_fit(solution, tmp_path):
    path = save_solution(solution, tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"problem: .*a\.npz has xs of shape \(11, 2\), expected \(13, 2\) as in 'ti"):
        Solution.load(path, tip(12))
    other = tip(10)
    other.system.dt = 0.1
    with pytest.raises(ValueError, match=r"has dt = 0\.05, expected 0\.1 as in 'tip'"):
        Solution.load(path, other)
