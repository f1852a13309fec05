"""Names of public objects in literals are links to the reference, in docstrings and on pages alike."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

PACKAGES = ("trajopt", "dynamics", "dynamics.rods", "problems")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", re.S)
INSTANCES = {
    "solution": "trajopt.Solution",
    "problem": "trajopt.Problem",
    "prepared": "trajopt.PreparedSolver",
    "solver": "trajopt.DDP",
    "model": "dynamics.RigidBodyModel",
    "robot": "dynamics.RigidBodyModel",
    "builder": "dynamics.ModelBuilder",
    "rods": "dynamics.rods",
}
"""What pages call an object, and its class."""


def full_name(text, known, context=""):
    """The documented object, of those known, that a literal names in the docstring of `context`, or None.

    A word without capital, dot, underscore or parentheses may be any argument: it names functions only in full.
    """
    match = NAME.fullmatch(text)
    if not match:
        return None
    name, call = match.groups()
    head, _, rest = name.partition(".")
    wordlike = not call and not rest and "_" not in name and name.islower()
    homes = [context, *(package for package in PACKAGES if context.startswith(package + ".")), *PACKAGES]
    candidates = [name, *(f"{home}.{name}" for home in homes if home and not (wordlike and home in PACKAGES))]
    if rest and head in INSTANCES:
        candidates += [f"{INSTANCES[head]}.{rest}", INSTANCES[head]]
    if rest and head[0].isupper():
        candidates += [f"{home}.{head}" for home in PACKAGES]  # a field of a class
    return next((candidate for candidate in candidates if candidate in known), None)


class LinkPublicNames(SphinxPostTransform):
    """Puts a link around each literal that names a public object."""

    default_priority = 5

    def run(self, **kwargs):
        known = self.env.domains["py"].objects
        for literal in list(self.document.findall(nodes.literal)):
            if self.within(literal, (nodes.reference, nodes.title, addnodes.pending_xref, addnodes.desc_signature)):
                continue
            name = full_name(literal.astext(), known, self.context(literal))
            if name is None:
                continue
            entry = known[name]
            link = make_refnode(
                self.app.builder, self.env.docname, entry.docname, entry.node_id, literal.deepcopy(), name
            )
            literal.replace_self(link)

    @staticmethod
    def within(node, kinds):
        while node.parent is not None:
            node = node.parent
            if isinstance(node, kinds):
                return True
        return False

    @staticmethod
    def context(node):
        """The class, or else the package, whose docstring this is."""
        while node.parent is not None:
            node = node.parent
            if isinstance(node, addnodes.desc) and node.children:
                signature = node.children[0]
                cls, module = signature.get("class"), signature.get("module")
                own = signature.get("fullname", "") if node.get("objtype") == "class" else ""
                return ".".join(filter(None, (module, cls or own)))
        return ""


def setup(app):
    app.add_post_transform(LinkPublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
