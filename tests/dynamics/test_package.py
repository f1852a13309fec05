"""The package's public names, and what importing it does not do."""

import subprocess
import sys
from pathlib import Path

import pytest

import dynamics
from dynamics import rods

ROOT = Path(dynamics.__file__).parents[1]
NAMES = """
    load_urdf ModelBuilder RigidBodyModel Revolute Prismatic Spherical FreeFlyer Planar Translation Fixed Continuous
    neutral integrate difference random_configuration
    inverse_dynamics forward_dynamics hybrid_dynamics mass_matrix inverse_mass_matrix bias_forces gravity_forces
    kinetic_energy potential_energy center_of_mass center_of_mass_jacobian
    frame_placement frame_jacobian frame_velocity frame_acceleration
    inverse_dynamics_derivatives forward_dynamics_derivatives
    inverse_dynamics_second_derivatives forward_dynamics_second_derivatives
    inverse_dynamics_hessian forward_dynamics_hessian
    PointContact RigidContact ContactSet contact_dynamics contact_dynamics_derivatives contact_dynamics_hessian
    contact_impulse contact_impulse_derivatives contact_impulse_hessian
    parameter_derivatives inverse_dynamics_regressor inertial_parameters with_inertial_parameters
    RigidBodySystem HybridSystem Impact Gait inverse_kinematics InverseKinematics
    FrameTranslation FrameRotation FramePlacement FrameVelocity CenterOfMass CentroidalMomentum ControlGravity
    Collisions ContactForce Distance FrictionCone WrenchCone CenterOfPressure ZeroMomentPoint SupportPolygon
    zero_moment_point JointAccelerationSystem JointTorques
    SoftRobotSystem
    num_threads set_num_threads skeleton
    JointCoupling LoopConstraint close_loops Coupling Loop Mimic Thruster LinearActuator
    Sphere Capsule Box Cylinder Ellipsoid HalfSpace Mesh Geometry
    minimal_capsule collision_geometry collision_pairs CollisionPairs
    Actuator Spring combine load_robot from_mujoco from_mujoco_state to_mujoco_state from_pinocchio
    Frame Placement HybridDynamics
    InverseDynamicsDerivatives InverseDynamicsHessian InverseDynamicsSecondDerivatives PackedSecondDerivatives
    ForwardDynamicsDerivatives ForwardDynamicsHessian ForwardDynamicsSecondDerivatives ParameterDerivatives
    ContactDynamics ContactDynamicsDerivatives ContactDynamicsHessian
    ContactImpulse ContactImpulseDerivatives ContactImpulseHessian
""".split()
MODEL_ATTRIBUTES = """
    nq nv joint_names body_names frame_names total_mass
    lower_position upper_position velocity_limit effort_limit gravity
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name):
    value = getattr(dynamics, name)
    assert callable(value) and value.__doc__
    assert name in dynamics.__all__ and name in dir(dynamics)


def test_everything_listed_exists():
    assert sorted(dynamics.__all__) == sorted(NAMES)


def test_names_of_rods():
    """Also by `from dynamics.rods import ...`, and nothing is loaded before it is used."""
    assert {"RodModelBuilder", "SoftRobot", "SoftRobotSystem", "simulate"} < set(rods.__all__) == set(dir(rods))
    for name in rods.__all__:
        assert getattr(rods, name).__doc__
    with pytest.raises(AttributeError, match=r"module 'dynamics\.rods' has no attribute 'Softrobot'"):
        _ = rods.Softrobot


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'dynamics' has no attribute 'invers_dynamics'"):
        _ = dynamics.invers_dynamics


@pytest.mark.parametrize("name", MODEL_ATTRIBUTES)
def test_attributes_of_a_model(name):
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0, 0, -0.5))
    assert getattr(builder.build(), name) is not None


def run(code):
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("package", ["dynamics", "trajopt", "problems"])
def test_importing_loads_no_compiler_and_no_plots(package):
    loaded = run(f"import sys, {package}; print(*(m for m in sys.modules if m in ('numba', 'llvmlite', 'matplotlib')))")
    assert loaded == []


@pytest.mark.parametrize("package", ["dynamics", "dynamics.simd"])
def test_loading_every_name_compiles_nothing(package):
    code = f"""
import sys, importlib
package = importlib.import_module({package!r})
values = [getattr(package, name) for name in package.__all__]
from dynamics.simd import PROGRESS
print(len(values) == len(package.__all__), PROGRESS.compiled, "matplotlib" in sys.modules)
"""
    assert run(code) == ["True", "0", "False"]
