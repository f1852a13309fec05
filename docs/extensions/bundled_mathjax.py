"""MathJax out of the package jupyter-server-mathjax, as much of it as the pages need: nothing is fetched.

That is version 2 with TeX for input, HTML and CSS for output, and the fonts STIX.
"""

import shutil
from pathlib import Path

import jupyter_server_mathjax

CONFIG = "TeX-AMS-MML_HTMLorMML-full.js"
PARTS = (
    "MathJax.js",
    "LICENSE",
    f"config/{CONFIG}",
    "extensions/TeX/boldsymbol.js",
    "extensions/TeX/newcommand.js",
    "extensions/MatchWebFonts.js",
    "jax/element/mml",
    "jax/output/HTML-CSS",
    "fonts/HTML-CSS/STIX-Web/woff",
)
SOURCE = Path(jupyter_server_mathjax.__file__).parent / "static"
FONT = {"availableFonts": ["STIX-Web"], "preferredFont": "STIX-Web", "webFont": "STIX-Web", "imageFont": None}
SETTINGS = {
    "config": [CONFIG],
    "jax": ["input/TeX", "output/HTML-CSS"],
    "extensions": ["tex2jax.js"],
    "TeX": {"extensions": ["AMSmath.js", "AMSsymbols.js"], "equationNumbers": {"autoNumber": "none"}},
    "tex2jax": {"processClass": "math|tex2jax_process", "ignoreClass": "document"},
    "HTML-CSS": {**FONT, "linebreaks": {"automatic": False}, "matchFontHeight": True},
    "showMathMenu": False,
    "messageStyle": "none",
}


def copy_mathjax(app):
    """Copies the parts to `_static/mathjax` of the site."""
    if app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        source, place = SOURCE / part, target / part
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, place)


def setup(app):
    app.config.mathjax_path = "mathjax/MathJax.js"
    app.config.mathjax2_config = SETTINGS
    app.config.myst_update_mathjax = False
    app.connect("builder-inited", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
