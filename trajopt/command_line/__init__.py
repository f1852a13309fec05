"""The command `trajopt`."""
