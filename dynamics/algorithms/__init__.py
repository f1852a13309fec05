"""Kinematics and dynamics of kinematic trees of rigid bodies, without derivatives."""
