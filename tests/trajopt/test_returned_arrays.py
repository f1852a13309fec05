"""What a residual or a system of a user's own returns is looked at before it is used."""

from dataclasses import replace

import numpy as np
import pytest

import trajopt
from tests.trajopt.cases import pendulum
from tests.trajopt.systems import Pendulum, TipResidual


class Wide(TipResidual):
    """Derivatives for a state of one number more."""

    def jacobians(self, xs, us):
        rx, _ = super().jacobians(xs, us)
        return np.concatenate([rx, rx[:, :, :1]], axis=2), None


class Curved(TipResidual):
    def hessian_products(self, xs, us, mu):
        return np.zeros((len(xs), 3, 3)), None, None


@pytest.mark.parametrize(("kind", "what"), [(Wide, "residual.jacobians, rx"), (Curved, "hessian_products, Hxx")])
def test_what_a_residual_returns_is_looked_at_before_it_is_used(kind, what):
    p = pendulum()
    terminal = [trajopt.ResidualCost(kind(), 1.0)]
    with pytest.raises(ValueError, match=rf"{what}: got shape"):
        trajopt.DDP(switch_threshold=1e9).solve(replace(p, terminal_costs=terminal))


def returning(member, change):
    """A pendulum that returns something else from one of its methods."""

    def method(self, *arguments):
        return change(getattr(Pendulum, member)(self, *arguments))

    return type("Changed", (Pendulum,), {member: method})()


def cut(array):
    return array[..., :-1]


@pytest.mark.parametrize(
    ("member", "change", "options"),
    [
        ("rollout", cut, {}),
        ("rollout", lambda xs: xs[1:], {}),
        ("linearize", lambda f: (f[0], np.repeat(f[1], 2, axis=2)), {}),
        ("hessian_products", lambda H: (np.pad(H[0], ((0, 0), (0, 1), (0, 1))), *H[1:]), {}),
        ("hessian_products", lambda H: (*H[:2], np.pad(H[2], ((0, 0), (0, 1), (0, 1)))), {}),
        ("hessian_products", lambda H: (H[0], cut(H[1]), H[2]), {}),
        ("hessians", lambda f: (np.pad(f[0], ((0, 0), (0, 0), (0, 1), (0, 1))), *f[1:]), {"hessian": "tensor"}),
        ("closed_loop_rollout", lambda found: (cut(found[0]), found[1]), {}),
        ("closed_loop_rollout", lambda found: (found[0], found[1][:, :-1]), {}),
    ],
)
def test_what_a_system_returns_is_looked_at_before_it_is_used(member, change, options):
    system = returning(member, change)
    problem = replace(pendulum(), system=system)
    with pytest.raises(ValueError, match=rf"{member}.*: got shape"):
        trajopt.DDP(switch_threshold=1e9, **options).solve(problem)


@pytest.mark.parametrize("member", ["step", "difference"])
def test_gaps_of_a_system_are_looked_at(member):
    problem = replace(pendulum(), system=returning(member, cut))
    with pytest.raises(ValueError, match=rf"{member}: got shape"):
        trajopt.DDP().solve(problem, xs=np.zeros((problem.horizon + 1, 2)))
