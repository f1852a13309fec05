"""Systems and residuals from a user's function; see `CallableSystem` and `residual`."""

from trajopt.callable_system.function_residual import residual
from trajopt.callable_system.functions import SlowDynamicsWarning
from trajopt.callable_system.system import CallableSystem

__all__ = ["CallableSystem", "SlowDynamicsWarning", "residual"]
