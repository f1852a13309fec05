"""Prepared calls as a C library: functions, and all the memory that they work on, for programs without Python.

    step = system.prepared_steps(xs, us, following)
    write_library("build/arm", "arm", {"step": step}, {"xs": xs, "us": us, "following": following})

writes a header with `arm_create`, `arm_step`, `double *arm_xs(arm_t *)` and so on, and libraries of the same functions:
a kernel is the machine code of its optimised intermediate code (`machine_code`), its block and arrays are constant
bytes that a new object is a copy of (`image`), and a few lines of C call the one with the other (`texts`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dynamics.simd.c_library import texts
from dynamics.simd.c_library.image import image_of
from dynamics.simd.c_library.machine_code import Target, linked, target_of
from dynamics.simd.prepared_calls import PreparedCall, calls_of

_NAME = re.compile("[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?")
_WORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval
    constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq main
    """.split()
)
"""Words of C and C++ that no name can be."""
_OWN = "size", "create", "init", "free", "t"
"""What the names of a library's own functions, and of its type, end with."""


def write_library(
    folder: str | os.PathLike[str],
    name: str,
    entries: Mapping[str, Callable[[], Any]],
    arrays: Mapping[str, np.ndarray],
    entered: Iterable[PreparedCall] = (),
    target: str = "native",
    constants: Mapping[str, int] | None = None,
) -> Path:
    """Write a library of prepared calls, static and shared, with a C header, a file for CMake, and a README.

    Objects of the library begin with the numbers that all arrays hold now.  A result that a call returns as a number is
    `call.room.view(float)[:1]` among the arrays.

    Parameters
    ----------
    folder : new, or empty
    name : identifier in C, which all names of the library begin with
    entries : prepared calls, or functions without arguments that consist of them (`calls_of`), by name
    arrays : those that the program reads and writes by name, float64 or int64, C-contiguous, of the calls' own
    entered : all calls that compiled functions make by their addresses
    target : "native", this processor; "x86-64-v3"; or "aarch64", which needs aarch64-linux-gnu-gcc (Debian's
        gcc-aarch64-linux-gnu)
    constants : numbers that the header has names for, by these

    Returns
    -------
    the folder

    Raises
    ------
    ValueError, TypeError : for arguments other than these, and for functions that need numba's runtime
    FileExistsError : if the folder is not empty
    FileNotFoundError : without a C compiler
    OSError : on other systems than Linux
    """
    place, chosen = check_place(folder, name, target)
    of_entries = _checked_entries(entries)
    _check_arrays(arrays, of_entries)
    calls = list(dict.fromkeys([call for calls in of_entries.values() for call in calls] + _checked(entered)))
    made = {entry: [calls.index(call) for call in part] for entry, part in of_entries.items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as working:
        new = Path(working, name)
        new.mkdir()
        _build(new, texts.Interface(name, made, arrays, constants or {}), calls, chosen, target)
        os.replace(new, place)
    return Path(folder)


# ------------------------------------------------------------------------------------------------ arguments
def check_place(folder: str | os.PathLike[str], name: str, target: str) -> tuple[Path, Target]:
    """The folder for a library of this name, and what it is translated for; raises what `write_library` does for
    these."""
    _check_name("name", name)
    chosen = target_of(target)
    for needed in (chosen.compiler, "ar"):
        if shutil.which(needed) is None:
            raise FileNotFoundError(
                f"target: got {target!r}, which needs the program {needed}, expected it on the PATH"
            )
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder: got {folder!r}, expected a path")
    place = Path(folder).resolve()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise FileExistsError(f"folder: got {str(place)!r}, which is there already, expected a new or empty folder")
    _check_writable(place)
    return place, chosen


def _check_writable(place: Path) -> None:
    """Raise OSError that names the folder if none can be made there."""
    above = next(each for each in place.parents if each.exists())
    if not above.is_dir():
        raise NotADirectoryError(20, "folder: got a place in a file, expected one in a folder", str(place))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(13, "folder: got a place where nothing can be written", str(place))


def identifier(text: str, otherwise: str) -> str:
    """A name in C, which begins with another word where the text's letters do not make one."""
    found = re.sub("[^A-Za-z0-9]+", "_", text).strip("_")
    return found if found[:1].isalpha() else f"{otherwise}_{found}".strip("_")


def _checked(calls: Iterable[Any]) -> list[PreparedCall]:
    found = list(calls)
    for call in found:
        if not isinstance(call, PreparedCall):
            raise TypeError(f"entered: got {call!r}, expected prepared calls")
    return found


def _check_name(argument: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{argument}: got {name!r}, expected a name of ASCII letters, digits and underscores")
    if argument == "name" and name in _WORDS:
        raise ValueError(f"{argument}: got {name!r}, a word of C or C++, expected another name")


def _checked_entries(entries: Mapping[str, Any]) -> dict[str, tuple[PreparedCall, ...]]:
    """The calls of each entry."""
    if not entries:
        raise ValueError("entries: got none, expected at least one")
    found = {}
    for entry, function in entries.items():
        _check_name("entries", entry)
        calls = calls_of(function)
        if calls is None:
            raise TypeError(
                f"entries[{entry!r}]: got {function!r}, expected a prepared call of a compiled function, or several "
                "one after another, in one thread, and nothing in Python between them"
            )
        found[entry] = calls
    return found


def _check_arrays(arrays: Mapping[str, Any], entries: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        _check_name("arrays", name)
        if not isinstance(array, np.ndarray) or array.dtype not in texts.TYPES:
            raise TypeError(f"arrays[{name!r}]: got {array!r}, expected an array of float64 or int64")
        if not array.flags.c_contiguous or not array.size:
            raise ValueError(
                f"arrays[{name!r}]: got {array.shape} of strides {array.strides}, expected numbers in C order"
            )
    for name in (*arrays, *entries):
        if name in _OWN or (name in arrays and name in entries):
            raise ValueError(f"arrays, entries: got {name!r}, expected different names, and none of {', '.join(_OWN)}")


# ------------------------------------------------------------------------------------------------ files
_COMPILED = "-std=c11", "-O2", "-fPIC", "-fvisibility=hidden"
_LINKED = "-Wl,--no-undefined", "-Wl,-z,noexecstack", "-s"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{' '.join(command)}\n{done.stderr.strip()}")


def _build(new: Path, interface: texts.Interface, calls: list[PreparedCall], chosen: Target, target: str) -> None:
    """All files of the library, in an empty folder."""
    name = interface.name
    kernels = linked(calls, chosen, interface.kernel)
    image = image_of(calls, kernels.numbers, interface.arrays)
    code = kernels.translate()
    sizes = {
        "machine code": len(code),
        "first state of an object": len(image.stored),
        "memory of an object": image.size,
    }
    about = f"{len(calls)} compiled calls and their memory for {target} ({chosen.triple}, {chosen.cpu})."
    written = {
        f"{name}.h": texts.header(interface, about),
        f"{name}-config.cmake": texts.cmake(name),
        "README.md": texts.readme(interface, sizes, about),
    }
    for file, text in written.items():
        new.joinpath(file).write_text(text, encoding="utf-8")
    with TemporaryDirectory() as working:
        source, stored, constant = (Path(working, file) for file in ("api.c", "image", "image.s"))
        source.write_text(texts.source(interface, image, kernels.entries), encoding="utf-8")
        stored.write_bytes(image.stored)
        constant.write_text(texts.constant(interface.image, stored.name), encoding="utf-8")
        objects = [str(Path(working, f"{name}_{part}.o")) for part in ("api", "kernels", "image")]
        _run(chosen.compiler, *_COMPILED, "-I", str(new), "-c", str(source), "-o", objects[0])
        Path(objects[1]).write_bytes(code)
        _run(chosen.compiler, f"-Wa,-I,{working}", "-c", str(constant), "-o", objects[2])
        shared = "-shared", *_LINKED, f"-Wl,-soname,lib{name}.so", "-o", str(new / f"lib{name}.so")
        _run(chosen.compiler, *shared, *objects, "-lm")
        _run("ar", "rcsD", str(new / f"lib{name}.a"), *objects)
