"""Compiled kernels on the disk: a file for each function and the types of its arguments, found by its name.  It has the
code, names of functions in it, and, packed once more, its key and what else numba knows of it.

numba's own cache keeps an index of all types that a function was compiled for, and to read it takes the classes of all
of them: a rigid robot would import soft ones.  It also searches for a folder, and where the first cannot be used takes
another one beside the sources, where kernels survive edits of the files that they depend on.

Corrupt machine code can end the process where LLVM reads it, which Python cannot catch.  So every file begins with the
SHA-256 digest of the rest, and is neither unpickled nor linked unless the digest agrees.
"""

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from dynamics.simd.cache_folder import make_folder
from dynamics.simd.caller import warn
from dynamics.simd.llvm_events import without_llvm_events
from dynamics.simd.shipped import level

try:
    import fcntl
except ImportError:  # not on Windows, where processes compile without regard to each other
    fcntl = None

_DIGEST = hashlib.sha256().digest_size


class DamagedFileError(ValueError):
    """The content of a file differs from what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: the content does not have the digest that was written with it")


def read_verified(path: Path) -> Any:
    """Content of a file; raises DamagedFileError, or OSError if there is no file."""
    stored = memoryview(path.read_bytes())
    if hashlib.sha256(stored[_DIGEST:]).digest() != stored[:_DIGEST]:
        raise DamagedFileError(path)
    return pickle.loads(stored[_DIGEST:])


def _verified(content: Any) -> bytes:
    text = dumps(content)
    return hashlib.sha256(text).digest() + text


def write_verified(path: Path, content: Any) -> None:
    """Write the file atomically, for processes that read or write it at the same time."""
    make_folder(path.parent)
    text, new = _verified(content), path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        new.write_bytes(text)
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


ON_MISS: list[Callable[[Any], object]] = []
"""Called, with the function of Python, before one is compiled that is on no disk."""


class NotCompiledError(LookupError):
    """A function would have to be compiled."""


_LOADING_ALONE = ContextVar("loading_alone", default=False)


@contextmanager
def loading_alone() -> Iterator[None]:
    """In this context functions are loaded from the disk, and none is compiled: NotCompiledError is raised for one that
    is not there."""
    token = _LOADING_ALONE.set(True)
    try:
        yield
    finally:
        _LOADING_ALONE.reset(token)


class Claim:
    """A lock on a file that is going to be written, which other processes wait for.  It ends with its process."""

    PATIENCE = 300.0
    """Seconds after which a process does without."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}.lock")
        make_folder(path.parent)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def taken(self) -> bool:
        """Whether it is ours now."""
        if fcntl is None:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def wait(self) -> float:
        """Until it is ours; returns how many seconds that took, 0 if it was free."""
        begin, waited = time.monotonic(), 0.0
        while not self.taken() and waited < self.PATIENCE:
            time.sleep(0.004)
            waited = time.monotonic() - begin
        return waited

    def release(self) -> None:
        """Remove the lock; those that wait for it find what was written."""
        with suppress(OSError):
            os.unlink(self.path)
        self.give_up()

    def give_up(self) -> None:
        """Let it be another's."""
        os.close(self._file)


class LoadedLibrary(JITCodeLibrary):
    """Code from the disk.  Its intermediate code is parsed only where a caller is compiled: that takes longer than all
    the rest.  Shipped code has none: there the function is compiled again."""

    def __init__(self, codegen, serialized, functions, function, again):
        name, _, (machine_code, self._bitcode) = serialized
        super().__init__(codegen, name)
        self._functions, self._function, self._again = functions, function, again
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()

    def get_pointer_to_function(self, name):
        """Address of a function, 0 if there is none of this name; called by numba."""
        return self._codegen._engine.get_function_address(name) if name in self._functions else 0

    def _get_module_for_linking(self):
        if self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self._bitcode) if self._bitcode else self._compiled_again()
        return self._shared_module

    def _compiled_again(self):
        """Intermediate code with the names that this library has; its environments, and shared kernels that it calls,
        are kept here."""
        self._kept = compiled = self._again()
        module, name = llvm.parse_bitcode(compiled.library._get_module_for_linking().as_bitcode()), self._function
        for form in ("{}", "entry.{}"):
            with suppress(NameError):  # kernels have no entries
                module.get_function(form.format(compiled.fndesc.llvm_func_name)).name = form.format(name)
        self._reload_init.update(compiled.library._reload_init)
        return module


def without_intermediate_code(path: Path) -> bytes | None:
    """Content of a cache file with machine code alone; None for an inner function, which has no machine code."""
    (name, kind, code), functions, about = read_verified(path)
    return _verified(((name, kind, (code[0], b"")), functions, about)) if isinstance(code, tuple) else None


class KernelCache:
    """Cache files of one function.  Damaged ones are removed; if none can be written, the function is compiled again in
    each process, with one warning."""

    warned, _library, _claims = False, LoadedLibrary, True
    waited = 0.0
    """Seconds for which this process has waited for others, since somebody asked."""

    def __init__(self, function, folder: Path, shipped: Path | None, compile: Callable[..., CompileResult]):
        self.cache_path, self._function, self._enabled, self._compile = folder, function, True, compile
        self._claim: dict[Any, Claim] = {}
        self._shipped = None if shipped is None else type(self)(function, shipped, None, compile)
        self._level: str | None = None
        if self._shipped is not None:
            self._shipped._level = level()

    def load_overload(self, sig, target_context):
        """The function compiled for these types, or None; called by numba."""
        found = self._load(sig, target_context)
        if found is None and _LOADING_ALONE.get():
            raise NotCompiledError(f"{self._function.__qualname__}: not compiled for these types")
        if found is None and self._claims and self._enabled:
            for tell in ON_MISS:
                tell(self._function)
            found = self._load_claimed(sig, target_context)
        return found

    def _load_claimed(self, sig, target_context):
        """Wait for another process that is compiling the function; None where this one is to compile it."""
        path, _ = self._file(sig, target_context.codegen())
        try:
            claim = Claim(path)
        except OSError:
            return None
        try:
            KernelCache.waited += claim.wait()
            found = self._load(sig, target_context) if path.is_file() else None
        except BaseException:  # a keyboard's interrupt, too
            claim.give_up()
            raise
        if found is None:
            self._claim[sig] = claim
        else:
            claim.release()
        return found

    def release(self, sig) -> None:
        """Let other processes have a function that was compiled, or could not be."""
        claim = self._claim.pop(sig, None)
        if claim is not None:
            claim.release()

    def present(self, sig, target_context) -> bool:
        """Whether there is a file for these types."""
        path, _ = self._file(sig, target_context.codegen())
        return path.is_file() or (self._shipped is not None and self._shipped.present(sig, target_context))

    def present_or_claimed(self, sig, target_context) -> bool:
        """Whether there is a file for these types, or a process that will write it."""
        path, _ = self._file(sig, target_context.codegen())
        if self.present(sig, target_context):
            return True
        claim = Claim(path)
        free = claim.taken()
        if free:
            claim.release()
        else:
            claim.give_up()
        return not free

    def _load(self, sig, target_context):
        if self._shipped is not None:
            found = self._shipped._load(sig, target_context)
            if found is not None:
                return found
        if not self._enabled:
            return None
        rtsys.initialize(target_context)  # all of numba that loaded code needs; what compiles, numba imports later
        path, key = self._file(sig, target_context.codegen())
        try:
            serialized, functions, about = read_verified(path)
            stored, parts = pickle.loads(about)
            with without_llvm_events():
                return self._rebuild(target_context, functions, serialized, *parts) if stored == key else None
        except FileNotFoundError:
            return None
        except Exception as error:  # damaged files and pickles raise anything
            if self._level is None:  # shipped files the user cannot repair
                try:
                    path.unlink()
                except OSError:
                    self._do_without(error)
            return None

    def save_overload(self, sig, data):
        """Save a new function; called by numba."""
        if not self._enabled or data.library.has_dynamic_globals:  # addresses of this process
            return
        try:
            path, key = self._file(sig, data.codegen)
            functions = {x.name for x in data.library._final_module.functions if not x.is_declaration}
            serialized, *parts = data._reduce()
            write_verified(path, (serialized, functions, dumps((key, parts))))
            data.library._shared_module = None  # made for the file, and again for the first caller that is compiled
        except Exception as error:
            self._do_without(error)

    def _rebuild(
        self, target_context, functions, serialized, descriptor, environment, signature, objectmode, lifted, annotation,
        reload_init, environments,
    ):  # fmt: skip
        """What was compiled, of the parts that `CompileResult._reduce` left of it."""
        for load in reload_init or ():
            load()
        again = partial(self._compile, signature.args)
        codegen, name = target_context.codegen(), descriptor.llvm_func_name
        library = self._library(codegen, serialized, functions, name, again)
        entry_point = target_context.get_executable(library, descriptor, environment)
        for x in environments:
            library.codegen.set_env(x.env_name, x)
        return CompileResult(
            target_context.typing_context, target_context, entry_point, typing_error=None, type_annotation=annotation,
            signature=signature, objectmode=objectmode, lifted=lifted, fndesc=descriptor, library=library,
            call_helper=None, environment=environment, metadata=None, reload_init=reload_init,
            referenced_envs=environments,
        )  # fmt: skip

    def _file(self, sig, codegen) -> tuple[Path, tuple]:
        """The file of these types, and the key stored in it: types, processor and code.  Files for a level are found by
        any processor of that level."""
        code, cells = self._function.__code__, self._function.__closure__
        processor = codegen.magic_tuple()
        if self._level is not None:
            processor = processor[0], self._level, ""
        closed = dumps(tuple(cell.cell_contents for cell in cells)) if cells else b""
        key = sig, processor, hashlib.sha256(code.co_code).digest(), hashlib.sha256(closed).digest()
        name = self._function.__qualname__.replace("<", "").replace(">", "")
        name = f"{Path(code.co_filename).stem}.{name}-{code.co_firstlineno}"
        return self.cache_path / f"{name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc", key

    def _do_without(self, error):
        self._enabled = False
        if not KernelCache.warned:
            KernelCache.warned = True
            warn(
                f"compiled kernels cannot be kept in {self.cache_path} ({type(error).__name__}: {error}), so they will "
                "be compiled again; TRAJOPT_CACHE_DIR names another folder for them",
                RuntimeWarning,
            )
