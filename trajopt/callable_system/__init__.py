"""Systems from a user's function; see `CallableSystem`."""

from trajopt.callable_system.functions import SlowDynamicsWarning
from trajopt.callable_system.system import CallableSystem

__all__ = ["CallableSystem", "SlowDynamicsWarning"]
