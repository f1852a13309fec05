"""Names of public objects in literals are links to the reference, in docstrings and on pages alike."""

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from docs.extensions.public_names import full_name


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
