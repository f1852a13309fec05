"""Tuned numbers of the solver: each has a text below it that says what it means; pytest -s prints them as a table.

Their number may fall and is then to be lowered here; the aim of the design is 50.
"""

import ast
from pathlib import Path

TRAJOPT = Path(__file__).parent.parent / "trajopt"
FILES = [*sorted((TRAJOPT / "solvers").glob("*.py")), *sorted((TRAJOPT / "backward").glob("*.py")), TRAJOPT / "rows.py"]
PLACES = {"MU", "GAPS"}
"""Names that count places of arguments, which nobody tunes."""
MOST = 63


def is_number(node: ast.expr) -> bool:
    """True for a number, a tuple of some, or what is computed from one."""
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    calls = any(isinstance(part, ast.Call) and ast.unparse(part.func) != "float" for part in ast.walk(node))
    bounds = isinstance(node, ast.Call) and ast.unparse(node.func) == "Bound"
    numeric = any(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    return numeric and (bounds or not calls)


def constants() -> list[tuple[str, str, str, str]]:
    """File, name, value and text of each constant; an empty text for one that has none."""
    found = []
    for file in FILES:
        body = ast.parse(file.read_text()).body
        for node, below in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign) or not isinstance(target := node.targets[0], ast.Name | ast.Tuple):
                continue
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            same = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names) > 1
            values = node.value.elts if same and isinstance(node.value, ast.Tuple) else [node.value] * len(names)
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            text = str(below.value.value) if said else ""
            for name, value in zip(map(ast.unparse, names), values, strict=True):
                if name.isupper() and name not in PLACES and is_number(value):
                    found.append((file.name, name, ast.unparse(value), " ".join(text.split())))
    return found


def test_each_constant_says_what_it_means():
    found = constants()
    print(f"\n{len(found)} constants, at most {MOST}")
    for row in found:
        print("| " + " | ".join(row) + " |")
    assert 20 < len(found) <= MOST
    assert not [(file, name) for file, name, _, text in found if not text]
