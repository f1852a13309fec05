"""What the derivative experiments stand on: trees, growth, differences, and the peers' values."""

import json
import sys

import numpy as np
import pytest

import dynamics
from experiments import mujoco_gaits
from experiments.derivatives import casadi_peer as casadi
from experiments.derivatives import chains, finite_differences, first_order
from experiments.derivatives import pinocchio_peer as pinocchio
from experiments.derivatives.trees import draw_ratios, draw_times, exponent
from experiments.harness.pictures import side_by_side
from tests.reference.random_robots import random_states, random_tree
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, ORACLE, ORACLE_SECOND_ORDER, relative_error


def one_dof_tree(rng):
    """A tree of revolute and prismatic joints about any axes, with armature."""
    return random_tree(["revolute", "prismatic", "revolute", "prismatic", "continuous"], [-1, 0, 1, 0, 3], rng)


# ------------------------------------------------------------------------------------------------ trees
@pytest.mark.parametrize(("branching", "expected"), [(1, 31), (2, 5), (5, 3)])
def test_depth_and_branching(branching, expected):
    model = chains.chain(31, branching)
    parents = model.arrays.parent
    children = np.bincount(parents[parents >= 0], minlength=31)
    assert model.nv == 31 and chains.depths(model).max() == expected
    assert np.count_nonzero(parents < 0) == 1 and children.max() == branching
    assert np.count_nonzero((children > 0) & (children < branching)) <= 1, "only the last parent may lack children"


def test_parents_by_hand():
    assert chains.parents(5, 1) == [-1, 0, 1, 2, 3]
    assert chains.parents(7, 2) == [-1, 0, 0, 1, 1, 2, 2]
    assert chains.parents(7, 5) == [-1, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("arguments", [(0, 1), (3, 0), (2.0, 1), (True, 1)])
def test_wrong_trees_are_refused(arguments):
    with pytest.raises(ValueError, match="expected an integer of at least 1"):
        chains.chain(*arguments)


@pytest.mark.parametrize("branching", [1, 2, 5])
def test_long_chains_stay_well_conditioned(branching, rng):
    model = chains.chain(200, branching)
    assert np.linalg.cond(dynamics.mass_matrix(model, rng.uniform(-1, 1, (2, 200)))).max() < 2e3
    assert model.total_mass == pytest.approx(chains.TOTAL_MASS, rel=0.02)


def test_humanoid():
    model = chains.humanoid()
    assert (model.nv, model.nq, model.nb) == (50, 51, 45)
    assert model.joint_types[0] == "FreeFlyer" and 80 < model.total_mass < 110
    M = dynamics.mass_matrix(model, dynamics.neutral(model))
    assert np.all(np.linalg.eigvalsh(M) > 0)


# ------------------------------------------------------------------------------------------------ growth
def test_exponent_of_a_power_law():
    N = np.array([2, 4, 8, 16, 32, 64])
    t = 1e-6 * N**2.5
    assert exponent(N, t) == pytest.approx(2.5)
    t[:3] = 1.0
    assert exponent(N, t) == pytest.approx(2.5), "only the upper half counts"
    with pytest.raises(ValueError, match="positive"):
        exponent([1, 2], [0.0, 1.0])
    with pytest.raises(ValueError, match="at least 2 points"):
        exponent([1], [1.0])


def test_pictures_of_growth():
    series = {"a": ([2, 4, 8], [1.0, 2.0, 4.0]), "b": ([2, 4, 8], [1.0, 4.0, 32.0])}
    figure = side_by_side(*(lambda axes, draw=draw: draw(axes, series) for draw in (draw_times, draw_ratios)))
    times, ratios = figure.axes
    assert [text.get_text() for text in times.get_legend().get_texts()] == ["a, $N^{1.0}$", "b, $N^{2.5}$"]
    assert times.get_yscale() == ratios.get_yscale() == times.get_xscale() == "log", "the range is beyond 20"


# ------------------------------------------------------------------------------------------------ differences
def test_differences_of_first_order(rng):
    model = random_tree(["free flyer", "revolute", "spherical", "prismatic"], [-1, 0, 1, 1], rng)
    q, v, a = random_states(model, 3, rng)
    for ours, differences in (
        (dynamics.inverse_dynamics_derivatives, finite_differences.inverse_dynamics_derivatives),
        (dynamics.forward_dynamics_derivatives, finite_differences.forward_dynamics_derivatives),
    ):
        for value, expected in zip(differences(model, q, v, a), ours(model, q, v, a), strict=True):
            assert relative_error(value, expected) < CENTRAL_DIFFERENCES


def test_differences_of_second_order(rng):
    model = random_tree(["planar", "revolute", "revolute"], [-1, 0, 0], rng)
    q, v, a = random_states(model, 3, rng)
    inverse = finite_differences.inverse_dynamics_second_derivatives(model, q, v, a)
    first = dynamics.forward_dynamics_derivatives
    dq, dv, dtau = finite_differences.central_differences(model, first, "qv", q, v, a)
    forward = dq["q"], dq["v"], dv["v"], dtau["q"].swapaxes(-1, -2)
    for values, ours in (
        (inverse, dynamics.inverse_dynamics_second_derivatives),
        (forward, dynamics.forward_dynamics_second_derivatives),
    ):
        for value, expected in zip(values, ours(model, q, v, a), strict=True):
            assert relative_error(value, expected) < CENTRAL_DIFFERENCES


# ------------------------------------------------------------------------------------------------ peers
@pytest.mark.peer
@pytest.mark.parametrize("algorithm", ["rnea", "idsva"])
def test_casadi(algorithm, rng):
    pytest.importorskip("casadi")
    model = one_dof_tree(rng)
    q, v, a = random_states(model, 2, rng)
    first, second = casadi.first_order(model, algorithm), casadi.second_order(model, algorithm)
    sweeps, _ = casadi.second_order_sweeps(model, algorithm)
    for value, expected in zip(
        first(q[0], v[0], a[0]), dynamics.inverse_dynamics_derivatives(model, q[0], v[0], a[0]), strict=True
    ):
        assert relative_error(np.array(value), expected) < ORACLE
    expected = dynamics.inverse_dynamics_second_derivatives(model, q[1], v[1], a[1])
    for function in (second, sweeps):
        for value, tensor in zip(casadi.tensors(model, function(q[1], v[1], a[1])), expected, strict=True):
            assert relative_error(value, tensor) < ORACLE_SECOND_ORDER


@pytest.mark.peer
def test_casadi_in_batches_and_compiled(tmp_path, rng):
    pytest.importorskip("casadi")
    model = chains.chain(3)
    q, v, a = rng.uniform(-1, 1, (3, 4, 3))
    plain = casadi.first_order(model)
    expected = [np.array(x) for x in casadi.evaluator(plain, q, v, a)()]
    assert all(len(x) == 4 for x in expected)
    assert relative_error(expected[0][1], np.array(plain(q[1], v[1], a[1])[0].nonzeros())) < ORACLE
    candidates = casadi.second_order_candidates(model, tmp_path)
    assert len(candidates) == (4 if casadi.compiler() else 2)
    results = [casadi.tensors(model, c.function(q[2], v[2], a[2])) for c in candidates]
    for other in results[1:]:
        for value, first in zip(other, results[0], strict=True):
            assert relative_error(value, first) < ORACLE


@pytest.mark.peer
@pytest.mark.skipif(casadi.compiler() is None, reason="no C compiler")
def test_long_functions_are_compiled_in_pieces(tmp_path, rng, monkeypatch):
    pytest.importorskip("casadi")
    monkeypatch.setattr(casadi, "PIECE", 50)
    model = chains.chain(3, 2)
    q, v, a = rng.uniform(-1, 1, (3, 3))
    plain = casadi.first_order(model)
    fast = casadi.compiled(plain, tmp_path)
    assert (tmp_path / next(tmp_path.glob("*.c"))).read_text().count("void piece_") > 2
    for value, expected in zip(fast(q, v, a), plain(q, v, a), strict=True):
        assert relative_error(np.array(value), np.array(expected)) < ORACLE


@pytest.mark.peer
def test_casadi_refuses_other_joints():
    pytest.importorskip("casadi")
    with pytest.raises(ValueError, match="revolute and prismatic"):
        casadi.first_order(chains.humanoid())


@pytest.mark.peer
@pytest.mark.parametrize("make", [lambda rng: chains.chain(9, 2), one_dof_tree, lambda rng: chains.humanoid()])
def test_pinocchio(make, rng):
    pytest.importorskip("pinocchio")
    model = make(rng)
    peer = pinocchio.build(model)
    q, v, a = random_states(model, 2, rng)
    assert pinocchio.disagreement(model, peer, q[0], v[0], a[0]) < 1e-10
    tau = dynamics.inverse_dynamics(model, q[1], v[1], a[1])
    data = pinocchio.forward_derivatives(peer, q, v, np.stack([tau, tau]))()
    expected = dynamics.forward_dynamics_derivatives(model, q[1], v[1], tau)
    assert relative_error(data.ddq_dq, expected.da_dq) < 1e-8


@pytest.mark.peer
def test_published_robots():
    pytest.importorskip("pinocchio")
    pytest.importorskip("example_robot_data")
    for name, nv in {"ur3": 6, "hyq": 18}.items():
        ours, theirs = pinocchio.robot(name)
        assert ours.nv == theirs.nv == nv
    with pytest.raises(ValueError, match="expected one of ur3"):
        pinocchio.robot("r2d2")


@pytest.mark.parametrize(
    ("peer", "call"),
    [
        ("pinocchio", lambda: pinocchio.build(chains.chain(2))),
        ("mujoco", lambda: mujoco_gaits.specification(chains.chain(2))),
        ("casadi", lambda: casadi.first_order(chains.chain(2))),
        ("example_robot_data", lambda: pinocchio.robot("ur5")),
    ],
)
def test_without_the_peer(peer, call, monkeypatch):
    monkeypatch.setitem(sys.modules, peer, None)
    if peer == "casadi":
        monkeypatch.setattr(casadi, "ca", None)
    with pytest.raises(ImportError, match="peers"):
        call()


# ------------------------------------------------------------------------------------------------ scripts
def test_first_order_quick_run(tmp_path, capsys):
    threads = dynamics.num_threads()
    assert first_order.main(["--quick", "--out", str(tmp_path)]) == 0
    assert dynamics.num_threads() == threads
    assert "RNEACR / IDSVA" in capsys.readouterr().out
    stored = json.loads((tmp_path / "first_order.json").read_text(encoding="utf-8"))
    assert stored["machine"]["threads"] == 1
    assert [(r["branching"], r["N"]) for r in stored["rows"]] == [(b, N) for b in (1, 2, 5) for N in (2, 4)]
    for row in stored["rows"]:
        assert all(t > 0 for t in row["us"].values())
        assert all(error < IDENTITY for error in row["error"].values())
    assert (tmp_path / "first_order.png").stat().st_size > 10_000
