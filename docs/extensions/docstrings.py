"""Docstrings as the project writes them, as reStructuredText.

Headings with a line of dashes below become fields; their entries, `name : type`, definitions.  Names in backticks are
literals, which `cross_references` links to what they name.  Lines after a prompt are examples.  Indented lines, and
lines that are set out in columns, are equations and stay as they are.  Everything else is plain text: what
reStructuredText would read as markup is escaped.
"""

import inspect
import re
from textwrap import dedent

LISTS = ("Parameters", "Attributes", "Returns", "Raises", "Warns", "Yields")
MARKUP = re.compile(r"([\\*|_])")
LITERAL = re.compile(r"(?<!`)(`{1,2})([^`]+)\1(?!`)")
LONG = 75
"""Characters of a line after which an entry's first line may go on in the next."""
COLUMNS = re.compile(r"\S {3,}\S")


def escaped(text):
    """Plain text with its literals."""
    parts, end = [], 0
    for match in LITERAL.finditer(text):
        parts += [MARKUP.sub(r"\\\1", text[end : match.start()]).replace("`", r"\`")]
        before, after = (text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1])
        left = "\\ " if before.strip() and before not in "([{'\"-/:" else ""
        right = "\\ " if after.strip() and after not in ".,;:!?)]}'\"-/" else ""
        parts += [f"{left}``{' '.join(match[2].split())}``{right}"]
        end = match.end()
    return "".join([*parts, MARKUP.sub(r"\\\1", text[end:]).replace("`", r"\`")])


def indented(lines, by=4):
    return [" " * by + line if line else "" for line in lines]


def paragraphs(lines):
    """Lists of lines between blank ones."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def prose(lines):
    """Paragraphs, examples and equations."""
    result = []
    for block in paragraphs(lines):
        if block[0].lstrip().startswith(">>> "):
            result += [".. code-block:: pycon", "", *indented(dedent("\n".join(block)).split("\n")), ""]
        elif all(line.startswith("  ") for line in block) or any(COLUMNS.search(line) for line in block):
            result += ["::", "", *indented(dedent("\n".join(block)).split("\n")), ""]
        else:
            result += [*escaped("\n".join(block)).split("\n"), ""]
    return result


def entries(lines):
    """Definitions `name : type` with what is said of them, which is indented."""
    result, k = [], 0
    while k < len(lines):
        head, k = lines[k], k + 1
        start = k
        while k < len(lines) and (not lines[k].strip() or lines[k].startswith(" ")):
            k += 1
        name, _, kind = head.partition(" : ")
        about = dedent("\n".join(lines[start:k])).split("\n")
        if len(head) > LONG and about[0] and not about[0][0].isupper():  # a sentence that goes on in the next line
            kind, about = "", [kind, *about]
        body = prose(about) or [".. nothing more", ""]
        names = escaped(name.strip()) if "`" in name else f"**{escaped(name.strip())}**"
        result += [f"{names} : {escaped(kind.strip())}" if kind.strip() else names, *indented(body)]
    return result


def sections(lines):
    """(heading or "", lines) of a docstring."""
    heading, start, found = "", 0, []
    for k in range(1, len(lines)):
        if re.fullmatch(r"-{3,}", lines[k].strip()) and lines[k - 1].strip():
            found.append((heading, lines[start : k - 1]))
            heading, start = lines[k - 1].strip(), k + 1
    return [*found, (heading, lines[start:])]


def restructured(lines):
    """A docstring as reStructuredText."""
    result = []
    for heading, body in sections(lines):
        if heading in LISTS:
            body = entries([line for line in dedent("\n".join(body)).strip("\n").split("\n")])
        else:
            body = prose(body)
        result += [f":{heading}:", *indented(body), ""] if heading else body
    return result


def process(app, what, name, obj, options, lines):
    lines[:] = restructured(lines)


def skip(app, what, name, obj, skipped, options):
    """Leaves out what other libraries document, fields of named tuples, and objects that say no more than their class,
    as kernels."""
    value = getattr(obj, "fget", None) or getattr(obj, "__func__", None) or obj
    if type(value).__module__.startswith(("trajopt.", "dynamics.")) and repr(value).startswith("<"):
        return True
    if isinstance(value, (str, int, float, tuple)) or inspect.isdatadescriptor(value):
        return True if (inspect.getdoc(value) or "").startswith("Alias for field") else skipped
    module = (getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None) or "").partition(".")[0]
    return True if module not in ("trajopt", "dynamics", "problems", "") else skipped


def setup(app):
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
