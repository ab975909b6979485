"""The site: Sphinx with MyST, so that the same Markdown reads well on GitHub. `nox -s docs` builds it into out/site."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

project = "kz_build"
html_title = "kz"
# The source folder is the checkout: pages link to files outside docs/ by the paths that GitHub follows, too.
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "examples/sample/README.md",
    "benchmarks/README.md",
    "docs/**.md",
]
exclude_patterns = ["out", "dist", ".*"]  # folders of a checkout that may be large
extensions = ["myst_parser"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False
html_theme = "furo"
html_extra_path = ["front"]
html_copy_source = html_show_sphinx = html_show_copyright = False


def add_generated(app: Sphinx, name: str, text: list[str]) -> None:
    """End a page with what the code knows of its subject."""
    from made_of_code import options, signatures

    if name == "docs/reference/signatures":
        text[0] += signatures()
    elif name == "docs/reference/verbs/index":
        text[0] += "\n```{toctree}\n:hidden:\n:glob:\n*\n```\n"
    elif name.startswith("docs/reference/"):
        text[0] += options(Path(name).name)


def setup(app: Sphinx) -> None:
    """Connect the hook."""
    app.connect("source-read", add_generated)
