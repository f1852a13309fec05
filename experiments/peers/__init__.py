"""The same optimal control problems stated for Crocoddyl and for this library, solved side by side in one run."""
