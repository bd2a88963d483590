"""The site of the documents, for Sphinx: `make docs`.

The source folder is the checkout's root, so that a page lies next to what it is about (`runtime-image/README.md`) and
its links mean the same here, in an editor and in a browser of the repository.
"""

import tomllib
from pathlib import Path

from docutils.nodes import document
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "GPTService"
author = "The GPTService authors"
project_copyright = author
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
version = release

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md", "runtime-image/README.md", "policy/README.md"]
exclude_patterns = [".*", "dist", "build"]
templates_path = ["_templates"]

# Broken links and anchors are warnings, and warnings fail the build (-W): also those into other pages.
nitpicky = True
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sourcelink = False
# The address of the site itself leads to the first page.
html_additional_pages = {"index": "redirect.html"}


def name_folders(app: Sphinx, page: document) -> None:
    """A link to a folder leads somewhere in the repository, where a page of the site has only its name to show."""
    place = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(page.findall(pending_xref)):
        if link["reftype"] == "myst" and (place / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", name_folders)
