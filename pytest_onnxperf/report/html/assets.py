"""What the page carries along: its own style and script, and uPlot 1.6.32 as it is on npm, under its MIT licence.

Nothing is fetched: style and scripts stand in the page, and its policy names them by their hashes, so that no other
script runs, wherever it came from.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from .markup import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLES: Final = ("uPlot.min.css", "page.css")
SCRIPTS: Final = ("uPlot.iife.min.js", "plots.js", "page.js")
LICENSE: Final = "uPlot.LICENSE"


def read(name: str) -> str:
    """Return the text of a file of the package."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return the content security policy of a page with these inline styles and scripts and no others."""
    allowed = " ".join(_hash(each) for each in scripts)
    styled = " ".join(_hash(each) for each in styles)
    nothing_else = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"{nothing_else}; script-src {allowed}; style-src {styled}"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def inline(tag: str, content: str) -> Markup:
    """Return a style or script of the package, as it is.

    Raises:
        ValueError: It holds the end of its own element.
    """
    if f"</{tag}" in content.lower() or "<!--" in content:
        msg = f"a {tag} of the package would end its element early"
        raise ValueError(msg)
    return Markup(f"<{tag}>{content}</{tag}>")
