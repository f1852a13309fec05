"""Sections, materials and shapes at rest: torsion of rectangles, shear, coupled stiffness, rods born curved."""

import math

import numpy as np
import pytest
from scipy.special import fresnel

from dynamics.rods.kinematics.center_lines import center_lines, link_placement
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.arrays import FIRST
from dynamics.rods.model.cross_section import Anisotropic, Circular, Elastic, Rectangular, rectangle_torsion
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from tests.reference.rod_robots import SOFT, complex_steps
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

ALL = LegendreBasis(0, 0, 0, 0, 0, 0)
LENGTH = 0.5
STEEL = Elastic(2e11, 0.3, 7800.0)


def rod(section=None, material=SOFT, basis=ALL, tendons=(), **options) -> SoftRobot:
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_rod("rod", "world", LENGTH, section or Circular(0.02), material, basis, **options)
    builder.add_wrench("rod", follower=True)
    return SoftRobot(builder.build(), tendons)


# ------------------------------------------------------------------------------------------------ torsion and shear
@pytest.mark.parametrize(
    ("a", "b", "expected"),  # Roark, table 10.1; Timoshenko and Goodier, section 109
    [(1.0, 1.0, 0.140577), (1.5, 1.0, 1.5 * 0.1958), (2.0, 1.0, 2.0 * 0.2287), (10.0, 1.0, 10.0 * 0.3123)],
)
def test_torsion_constants_of_rectangles(a, b, expected):
    for height, width in ((a, b), (b, a)):
        found = float(rectangle_torsion(0.01 * height, 0.01 * width))
        assert found == pytest.approx(1e-8 * expected, rel=2e-4)


def test_torsion_of_squares_and_strips():
    """A long sum of the series, and b a^3 (1 - 0.630249... a / b) / 3 of strips, right up to exp(- pi b / a)."""
    total = math.fsum(math.tanh(0.5 * k * math.pi) / k**5 for k in range(1, 4001, 2))
    assert relative_error(rectangle_torsion(1.0, 1.0), 1.0 / 3.0 - 64.0 / np.pi**5 * total) < IDENTITY
    strip = 1.0 / 3.0 - 64.0 / np.pi**5 / 20.0 * math.fsum(1.0 / k**5 for k in range(1, 4001, 2))
    assert relative_error(rectangle_torsion(20.0, 1.0), 20.0 * strip) < IDENTITY
    assert relative_error(rectangle_torsion(1e6, 1.0), 1e6 / 3.0) < 1e-6
    assert rectangle_torsion(0.0, 1.0) == 0.0


def test_a_strip_twists_far_more_easily_than_it_turns():
    """Its stiffness takes the torsion constant, its rotary inertia the polar moment."""
    h, w = 0.03, 0.001
    robot = rod(Rectangular(h, w), STEEL, LegendreBasis(torsion=0))
    J = float(rectangle_torsion(h, w))
    assert relative_error(robot.model.stiffness, [[STEEL.shear * J * LENGTH]]) < IDENTITY
    polar = (h * w**3 + h**3 * w) / 12.0
    M = robot.residual_derivatives(*np.zeros((3, 1)), []).M
    assert relative_error(M, [[STEEL.density * polar * LENGTH**3 / 3.0]]) < IDENTITY and polar > 200.0 * J


@pytest.mark.parametrize("factor", [1.0, 5.0 / 6.0])
def test_shear_of_a_short_cantilever(factor):
    """Timoshenko's deflection under a small force across: P L^3 / (3 E J) + P L / (k G A)."""
    material, side, force = Elastic(1e6, 0.3, 1e3, shear_correction=factor), 0.1, 1e-6
    robot = rod(Rectangular(side, side), material, LegendreBasis(bending_y=1, shear_z=0))
    rest = static_equilibrium(robot, [], wrenches=[[0.0, 0.0, 0.0, 0.0, 0.0, force]])
    J, A = side**4 / 12.0, side**2
    deflection = force * (LENGTH**3 / (3.0 * 1e6 * J) + LENGTH / (factor * material.shear * A))
    assert link_placement(robot.model, "rod", rest.q)[1][2] == pytest.approx(deflection, rel=1e-6)


# ------------------------------------------------------------------------------------------------ stiffness as given
def coupled(rng) -> np.ndarray:
    """A stiffness with every pair of strains coupled."""
    d = np.array([0.1, 0.2, 0.3, 400.0, 130.0, 130.0])
    X = rng.uniform(-0.3, 0.3, (6, 6)) + np.eye(6)
    return np.outer(np.sqrt(d), np.sqrt(d)) * (X @ X.T)


def test_coupled_strains_under_a_wrench_at_the_tip(rng):
    """A moment is the same all along a rod: strains are K^-1 times it."""
    K = coupled(rng)
    robot = rod(material=Anisotropic(K, 1000.0))
    assert relative_error(robot.model.stiffness, LENGTH * K) < IDENTITY
    B = np.linalg.inv(K)
    load = np.array([0.0, 1e-6, 2e-6, 0.0, 0.0, 0.0])  # small: its axes keep their directions
    rest = static_equilibrium(robot, [], wrenches=[load])
    assert rest.converged and relative_error(rest.q, B @ load) < 1e-4


def test_an_isotropic_solid_given_as_matrices(rng):
    """The same numbers as the material's own, constant and tapered, with damping."""
    section = Rectangular(0.03, 0.02, 0.02)
    basis = LegendreBasis(1, 2, 2, 1, 1, 1)

    def matrix(what):
        return lambda s: np.diag(getattr(SOFT, what)(section.properties(np.array([s])), np.array([s]))[0])

    given = Anisotropic(matrix("stiffness"), SOFT.density, matrix("damping"))
    one, two = (rod(section, material, basis).model for material in (SOFT, given))
    assert relative_error(two.stiffness, one.stiffness) < IDENTITY
    assert relative_error(two.damping, one.damping) < IDENTITY and two.total_mass == one.total_mass
    assert rod(section, Anisotropic(np.eye(6), 1.0), basis).model != two


def test_a_stiffness_no_isotropic_solid_has():
    """Torsion softer than Poisson's ratio of 1/2 allows."""
    E, G, J = 1e6, 1e5, np.pi / 4.0 * 0.02**4
    K = np.diag([2.0 * G * J, E * J, E * J, E, G, G])
    assert rod(material=Anisotropic(K, 1e3)).model.stiffness[0, 0] == pytest.approx(2.0 * G * J * LENGTH, rel=1e-12)
    with pytest.raises(ValueError, match=r"poisson: got 4.0, expected a number above -1 and at most 0.5"):
        Elastic(E, 0.5 * E / G - 1.0, 1e3)


@pytest.mark.parametrize(
    ("stiffness", "message"),
    [
        (lambda s: np.eye(6) * (0.3 - s), r"stiffness_matrix\(.*\): got the eigenvalue -1"),
        (lambda s: np.eye(5), r"stiffness_matrix\(.*\): got shape \(5, 5\)"),
        (lambda s: np.eye(6) + np.eye(6, k=1), "not symmetric"),
    ],
)
def test_functions_of_stiffness_are_checked(stiffness, message):
    with pytest.raises(ValueError, match=message):
        rod(material=Anisotropic(stiffness, 1e3))


# ------------------------------------------------------------------------------------------------ curved at rest
def clothoid(s: np.ndarray, rate: float = 6.0) -> np.ndarray:
    """Bending about y that grows along the rod: k = rate s."""
    strains = np.zeros((len(s), 6))
    strains[:, 1], strains[:, 3] = rate * s, 1.0
    return strains


def test_a_clothoid():
    """Curvature that grows in proportion to the arc length: Fresnel's integrals; the error is that of the steps."""
    errors = []
    scale = np.sqrt(np.pi * LENGTH / 6.0)
    S, C = fresnel(LENGTH / scale)
    expected = scale * np.array([C, 0.0, -S])
    for points in (16, 32):
        robot = rod(basis=LegendreBasis(bending_y=2), points=points, reference=clothoid)
        rest = static_equilibrium(robot, [])
        assert rest.converged and not rest.q.any()
        errors.append(np.abs(link_placement(robot.model, "rod", rest.q)[1] - expected).max())
    assert errors[1] < 1e-7 and np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.3)


def test_shapes_at_rest_as_functions_and_as_arrays():
    """The same model by either; a constant one by all three; energy is that of strains beyond those at rest."""
    nodes = rod(points=6).model.rods["rod"].nodes / LENGTH
    one, two = (rod(points=6, reference=given).model for given in (clothoid, clothoid(nodes)))
    assert relative_error(two.arrays.reference, one.arrays.reference) < IDENTITY
    assert np.array_equal(one.stiffness, rod(points=6).model.stiffness) and one != rod(points=6).model
    bent = (0.0, 0.3, 0.1, 1.0, 0.0, 0.0)
    same = [rod(reference=given).model for given in (bent, lambda s: np.tile(bent, (len(s), 1)), np.tile(bent, (7, 1)))]
    assert same[0] == same[1] and relative_error(same[2].arrays.reference, same[0].arrays.reference) < IDENTITY


def test_the_center_line_passes_through_the_tip(rng):
    robot = rod(reference=clothoid)
    q = rng.uniform(-0.5, 0.5, robot.nq)
    line = center_lines(robot.model, q, points=30)["rod"].points
    assert np.abs(line[-1] - link_placement(robot.model, "rod", q)[1]).max() < 1e-14
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    assert lengths.max() < 2.0 * lengths.min()


def test_derivatives_with_strains_at_rest_that_vary(rng):
    """Of a robot with a tendon, against complex steps."""
    robot = rod(basis=LegendreBasis(1, 1, 1, 1), tendons=[Tendon("rod", 0.005, lambda X: 0.01 * X)], reference=clothoid)
    n = robot.nq
    state = np.concatenate([rng.uniform(-1.0, 1.0, 4 * n), [3.0], rng.uniform(-1.0, 1.0, 6)])
    dr, _ = complex_steps(robot, FIRST, state)
    q, v, a, _ = np.split(state[: 4 * n], 4)
    found = robot.residual_derivatives(q, v, a, state[4 * n : 4 * n + 1], state[4 * n + 1 :].reshape(1, 6))
    for got, wanted in (
        (found.dr_dq, dr[:, :n]),
        (found.dr_dv, dr[:, n : 2 * n]),
        (-found.B, dr[:, 4 * n : 4 * n + 1]),
    ):
        assert relative_error(got, wanted) < COMPLEX_STEP


# ------------------------------------------------------------------------------------------------ tapers
def test_a_taper_is_a_function_of_the_length():
    """A linear one is that between two sizes, in the model and by content; a bulge bends by the integral of (L - X)^2 /
    E I."""
    pairs = [
        (Circular(0.02, 0.012), Circular(lambda s: 0.02 - 0.008 * s)),
        (Rectangular(0.02, 0.01, 0.015), Rectangular(lambda s: 0.02 - 0.005 * s, lambda s: np.full(s.shape, 0.01))),
    ]
    for between, function in pairs:
        one, other = rod(between), rod(function)
        assert relative_error(one.model.stiffness, other.model.stiffness) < IDENTITY
        assert one.model.total_mass == pytest.approx(other.model.total_mass, rel=1e-12)
        assert other.model == rod(function).model and one.model != rod(Circular(0.02)).model
    bulge, force = Circular(lambda s: 0.01 + 0.008 * np.sin(np.pi * s)), 1e-4
    bent = rod(bulge, basis=LegendreBasis(bending_z=7), points=12)
    rest = static_equilibrium(bent, [], wrenches=[[0.0, 0.0, 0.0, 0.0, force, 0.0]])
    y = link_placement(bent.model, "rod", rest.q)[1][1]
    s = (np.arange(4000) + 0.5) / 4000
    exact = force * LENGTH**3 * np.mean((1.0 - s) ** 2 / (SOFT.young * 0.25 * np.pi * bulge.radii(s) ** 4))
    assert y == pytest.approx(exact, rel=1e-3)
    curve = center_lines(bent.model, rest.q, 5)["rod"]
    assert relative_error(curve.radii, bulge.radii(np.linspace(0.0, 1.0, 5))) < IDENTITY
