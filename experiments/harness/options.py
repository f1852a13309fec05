"""Options of experiments; each is a function that adds it to a parser or to one of its groups."""

import argparse
from collections.abc import Callable
from typing import Any

Option = Callable[[Any], object]


def option(*names: str, **settings: Any) -> Option:
    """Any option, by the arguments of argparse's `add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def quick(what: str) -> Option:
    """--quick, which leaves this."""
    return option("--quick", action="store_true", help=what)


def seed(what: str) -> Option:
    """--seed of what is random."""
    return option("--seed", type=int, default=0, help=f"seed of the {what} (default: 0)")


def count(name: str, default: int | None, what: str, least: int = 1) -> Option:
    """An option that is an integer, at least `least`; `what` says what is counted, and the default if it is None."""
    shown = "" if default is None else " (default: %(default)s)"
    return option(name, type=_at_least(least), default=default, metavar="N", help=what + shown)


def either(*options: Option) -> Option:
    """Options that exclude each other."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        for each in options:
            each(group)

    return add


def positive(text: str) -> float:
    """Type of options that are positive numbers."""
    number = float(text)
    if not number > 0.0:
        raise argparse.ArgumentTypeError(f"got {text}, expected a positive number")
    return number


def _at_least(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"got {text}, expected at least {least}")
        return number

    return integer
