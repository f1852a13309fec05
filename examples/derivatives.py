"""Robot dynamics, their derivatives along anything, and the identification of a tool's inertia."""

import numpy as np

import dynamics
import problems

robot = dynamics.load_urdf(problems.model_path("arm6"))
rng = np.random.default_rng(0)
q, v, a, w = rng.uniform(-1.0, 1.0, (4, 64, robot.nv))  # 64 points, one call

# a load of 20 N hangs from the tool: first derivatives, and the Hessian of w' tau from the packed tensors
load = {"external_wrenches": {"tool": [0, 0, -20, 0, 0, 0]}, "wrench_reference": "local_world_aligned"}
dtau_dq, dtau_dv, M = dynamics.inverse_dynamics_derivatives(robot, q, v, a, **load)
tensors = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a, packed=True, **load)
Hqq, Hqv, Hvv, Hqa = tensors.contract(w)

# three joints follow given accelerations, three swing freely
arm_given = np.array([True, True, True, False, False, False])
accelerations, torques = dynamics.hybrid_dynamics(robot, q, v, a, np.zeros_like(a), prescribed=arm_given)

# how the torques change with the mass of the last link, and with any other inertial parameter
heavier = np.zeros((robot.nb, 10))
heavier[-1, 0] = 1.0
dtau = dynamics.parameter_derivatives(robot, q, v, a, inertial=heavier).tau

# torques are linear in the inertial parameters: fit those of the last link to what the motors measured
Y = dynamics.inverse_dynamics_regressor(robot, q, v, a)
measured = dynamics.inverse_dynamics(robot, q, v, a) + 0.3 * dtau  # 0.3 kg more than the model knows
columns = Y[:, :, -10:].reshape(-1, 10)
missing = np.linalg.lstsq(columns, (measured - dynamics.inverse_dynamics(robot, q, v, a)).ravel(), rcond=None)[0]
print(f"mass missing from the last link: {missing[0]:.3f} kg; packed tensors: {tensors.nbytes / 1e6:.2f} MB")
