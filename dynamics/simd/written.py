"""Generated source: kept as files beside the kernels compiled from it, so that it can be read and appears in
tracebacks, and compiled by the decorators of `dynamics.simd.compilation` like any other source."""

import hashlib
import linecache
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from uuid import uuid4

from dynamics.simd.cache_folder import cache_root, make_folder


def written_module(name: str, text: str) -> ModuleType:
    """The module of this name and source.

    numba caches compiled functions by the name of the module, and imports the module by it.  Raises ValueError if
    another source has the name."""
    known = sys.modules.get(name)
    if known is not None:
        if known.__dict__.get("_text") != text:
            raise ValueError(f"{name}: got a second source of this name")
        return known
    module = ModuleType(name)
    path = _file(name, text)
    module.__file__, module.__dict__["_text"] = path, text
    code = compile(text, path, "exec")
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _file(name: str, text: str) -> str:
    """Path of the source: a file, if there is a cache folder, else a name under which tracebacks find it."""
    root = cache_root()
    if root is not None:
        folder = root / "written" / hashlib.sha256(text.encode()).hexdigest()[:16]
        path = folder / f"{name.rpartition('.')[2]}.py"
        with suppress(OSError):
            if not path.is_file() or path.read_bytes() != text.encode():
                _write(path, text)
            return str(path)
    place = f"<written {name}>"
    linecache.cache[place] = len(text), None, text.splitlines(keepends=True), place
    return place


def _write(path: Path, text: str) -> None:
    """Write the file atomically, for processes that read it at the same time."""
    make_folder(path.parent)
    new = path.with_name(f"{path.name}.{uuid4().hex}")
    new.write_bytes(text.encode())
    os.replace(new, path)
