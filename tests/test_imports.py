"""No module of `dynamics` and `trajopt` imports itself by way of others, imports inside functions and for types too."""

import ast
from collections.abc import Iterator
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAZY = {
    "dynamics/__init__.py": "lazy names",
    "dynamics/model/__init__.py": "lazy names",
    "dynamics/rods/__init__.py": "lazy names",
    "trajopt/__init__.py": "lazy names",
    "trajopt/plotting/__init__.py": "lazy names",
    "dynamics/formats/load_robot.py": "the optional library robot_descriptions",
    "dynamics/formats/xacro_process.py": "the optional library xacrodoc",
    "dynamics/formats/pinocchio_models.py": "the optional library pinocchio",
    "dynamics/geometry/triangles.py": "the optional library trimesh",
    "dynamics/compilation/manifest.py": "functions and classes by name, which a list has",
    "dynamics/simd/compilation.py": "compilation ahead, a layer above it, where something is compiled",
    "dynamics/simd/dispatchers.py": "kernels by name, in processes that unpickle them",
    "trajopt/callable_system/array_libraries.py": "the optional library torch",
    "trajopt/command_line/cli.py": "problems, which the packages do not import",
    "trajopt/command_line/new_script.py": "problems and dynamics, which trajopt does not import",
    "trajopt/jax.py": "the optional library jax",
    "trajopt/plotting/viewer.py": "the optional libraries viser and websockets",
    "trajopt/torch.py": "the optional library torch",
}
"""Files that import modules by name, and what."""


def modules() -> dict[str, Path]:
    """Paths of all modules, by name."""
    found = {}
    for package in ("dynamics", "trajopt"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Modules among those known that a module's source names in import statements, wherever they stand."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def circles(graph: dict[str, set[str]]) -> Iterator[frozenset[str]]:
    """Strongly connected sets of more than one module, and modules that import themselves [Tarjan 1972]."""
    order, low, stack, numbers = {}, {}, [], count()

    def visit(module: str) -> Iterator[frozenset[str]]:
        order[module] = low[module] = next(numbers)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            at = stack.index(module)
            component = frozenset(stack[at:])
            del stack[at:]
            if len(component) > 1 or module in graph[module]:
                yield component

    for module in graph:
        if module not in order:
            yield from visit(module)


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}, "f": {"a"}}
    assert set(circles(graph)) == {frozenset("bc"), frozenset("e")}


def test_no_module_imports_itself_by_way_of_others():
    known = modules()
    graph = {name: imported(ast.parse(path.read_text()), set(known)) for name, path in known.items()}
    assert len(graph) > 300 and sum(map(len, graph.values())) > 1000
    assert not (found := sorted(map(sorted, circles(graph)))), f"circles of imports: {found}"


def test_modules_are_imported_by_name_only_where_that_is_needed():
    """Packages with lazy names, optional libraries, and packages that the contracts let no module import."""
    found = {
        str(path.relative_to(ROOT))
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func)
    }
    assert found == set(LAZY)
