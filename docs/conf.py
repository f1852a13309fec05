"""How Sphinx builds the site: `make docs`, without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import trajopt  # noqa: E402

project = "trajopt"
author = "The trajopt authors"
copyright = "The trajopt authors, BSD-2-Clause"
release = version = trajopt.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.extensions.reference_pages",
    "docs.extensions.docstrings",
    "docs.extensions.cross_references",
    "docs.extensions.bundled_mathjax",
    "docs.extensions.benchmark_page",
    "docs.extensions.gallery_pages",
]
exclude_patterns = ["README.md", "**/.ipynb_checkpoints", "extensions", "benchmarks"]
templates_path: list[str] = []

# Pages are Markdown; executed notebooks bring their outputs along.
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
nb_execution_mode = "off"
nb_merge_streams = True
smartquotes = False  # J'f is a product

# Docstrings say types and shapes themselves.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
add_module_names = True
toc_object_entries_show_parents = "hide"

html_theme = "sphinx_book_theme"
html_title = "trajopt"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = ""
html_theme_options = {
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "use_issues_button": False,
    "use_repository_button": False,
    "navigation_with_keys": False,
    "navbar_persistent": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
