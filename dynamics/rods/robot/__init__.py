"""Soft robots as users have them: built, driven, tracked."""
