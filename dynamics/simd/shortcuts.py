"""Shorter ways to what numba computes most often, in its place while kernels compile.

A first solve takes some hundred thousand times numba's search for the variables of a statement, and ten thousand times
its types of operators, for numbers as if they were arrays, and of intrinsics; it asks a million times whether a type of
numba is of a class, and whether the options of two compilations agree.  The functions here return the same as
those of numba that they stand for, whoever calls them.  numba's own are back as soon as no kernel is being compiled:
what others compile does not meet them, except what a kernel's compilation compiles on the way.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import ir, targetconfig, types
from numba.core.types import abstract, functions
from numba.core.typing import npydecl, templates

_LEAF, _VARIABLE, _STATEMENT, _SEQUENCE, _MAPPING = range(5)
_kinds: dict[type, int] = {}


def _kind(cls):
    bases = {_VARIABLE: ir.Var, _STATEMENT: ir.Inst, _SEQUENCE: (list, tuple), _MAPPING: dict}
    return next((kind for kind, base in bases.items() if issubclass(cls, base)), _LEAF)


def _variables(self, value):
    """`Inst._rec_list_vars`: variables in a value; the class of a value is looked up, not compared with five others."""
    cls = type(value)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = _kind(cls)
    if kind == _LEAF:
        return []
    if kind == _VARIABLE:
        return [value]
    if kind == _STATEMENT:
        return value.list_vars()
    found = []
    for member in value if kind == _SEQUENCE else value.values():
        cls = type(member)
        kind = _kinds.get(cls)
        if kind == _VARIABLE:
            found.append(member)
        elif kind != _LEAF:
            found += _variables(self, member)
    return found


_ARRAYS = types.ArrayCompatible, types.Optional
_typed_as_arrays = npydecl.NumpyRulesArrayOperator.generic


def _typed_operator(self, args, kws):
    """`NumpyRulesArrayOperator.generic`: None where no operand is an array."""
    return _typed_as_arrays(self, args, kws) if any(isinstance(x, _ARRAYS) for x in args) else None


_typed_anew = templates._IntrinsicTemplate.generic


def _typed_intrinsic(self, args, kws):
    """`_IntrinsicTemplate.generic`: the signature for types that have been met needs no search for new libraries."""
    known = self._impl_cache.get((self.context, args, tuple(kws.items())))
    return _typed_anew(self, args, kws) if known is None else known


_typed_by_templates = functions.BaseFunction.get_call_type
_cases: dict[tuple, tuple] = {}
"""Signatures with their templates' keys, for the time of one compilation."""


def _typed_function(self, context, args, kws):
    """`BaseFunction.get_call_type`: a function that has a list of signatures chooses the same one for the same types,
    and so it need not go through the list, nor through others before it, which have none for these types."""
    key = context, self, args, tuple(kws.items())
    signature, template = _cases.get(key) or (None, None)
    if signature is not None:
        self._impl_keys[signature.args] = template
        return signature
    signature = _typed_by_templates(self, context, args, kws)
    if any(signature is case for template in self.templates for case in getattr(template, "cases", ())):
        _cases[key] = signature, self._impl_keys[signature.args]
    return signature


def _values(self):
    """`TargetConfig.values`: values of all options, without a property for each."""
    given = self._values
    return {name: given[name] if name in given else option.default for name, option in self.options.items()}


_SHORTCUTS = {
    (ir.Inst, "_rec_list_vars"): _variables,
    (npydecl.NumpyRulesArrayOperator, "generic"): _typed_operator,
    (templates._IntrinsicTemplate, "generic"): _typed_intrinsic,
    (functions.BaseFunction, "get_call_type"): _typed_function,
    (targetconfig.TargetConfig, "values"): _values,
    (abstract._TypeMetaclass, "__instancecheck__"): type.__instancecheck__,  # no class of types has virtual subclasses
}
_NUMBA_OWN = {(cls, name): cls.__dict__.get(name) for cls, name in _SHORTCUTS}
"""None where a class inherits it."""
_depth = 0


def _put(functions):
    for (cls, name), function in functions.items():
        if function is None:
            delattr(cls, name)
        else:
            setattr(cls, name, function)


@contextmanager
def shortcuts() -> Iterator[None]:
    """Shortcuts are in place in this context, which may be nested; numba's lock of the compiler must be held."""
    global _depth
    if _depth == 0:
        _put(_SHORTCUTS)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _put(_NUMBA_OWN)
            _cases.clear()
