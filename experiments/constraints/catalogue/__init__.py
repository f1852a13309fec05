"""The problems by name; every module holds those of one kind."""

from functools import cache

from experiments.constraints.catalogue import flight, pendulums, points, vehicles
from experiments.constraints.statement import Statement

FACTORIES = (
    points.double_integrator, points.bryson_denham, points.van_der_pol, points.unstable_long, points.obstacle_ahead,
    points.touching_discs, points.bead_on_circle, points.mixed_units, vehicles.car_discs, vehicles.dubins_maze,
    vehicles.minimum_time_integrator, vehicles.minimum_time_car, vehicles.zermelo, vehicles.brachistochrone,
    vehicles.crane, pendulums.cart_pole, pendulums.acrobot, pendulums.double_pendulum, pendulums.arm_tip,
    pendulums.arm_redundant, pendulums.arm_line, flight.goddard, flight.rocket_landing, flight.moon_lander,
    flight.quadrotor_gap, flight.hang_glider, points.weak_force, points.wall_before_goal, pendulums.out_of_reach,
)  # fmt: skip

NAMES = tuple(factory.__name__ for factory in FACTORIES)


@cache
def statement(name: str) -> Statement:
    """The problem of that name, one object for each, so that its functions are compiled once."""
    return dict(zip(NAMES, FACTORIES, strict=True))[name]()
