"""The look that all figures share, and how they become files or part of a page."""

from __future__ import annotations

import io
import os
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpusim.errors import MissingPackageError, OutputError
from gpusim.io import Outputs

INK, STRONG, WEAK, MARK, GRID = "#1c2430", "#1f5fa8", "#b9bec6", "#d95f02", "#e4e6ea"  # told apart in grey too
_SUFFIXES = (".png", ".svg")
_FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Arial Unicode MS", "Microsoft YaHei")
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"

Draw = Callable[[Any], None]


def figure_kind(path: str | os.PathLike[str]) -> str:
    """``"png"`` or ``"svg"``, by suffix.

    Raises:
        OutputError: another suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise OutputError(f"{os.fspath(path)}: a figure is written as {' or '.join(_SUFFIXES)}; the suffix says which")
    return suffix[1:]


def require(*packages: str) -> None:
    """See to it that the packages of the extra ``report`` are there.

    Raises:
        MissingPackageError: naming the first that is not.
    """
    for package in packages:
        try:
            __import__(package)
        except ModuleNotFoundError:
            what = "a figure" if package == "matplotlib" else "a report"
            raise MissingPackageError(f"{what} needs {package}: pip install 'gpusim[report]'") from None


def save_figure(draw: Draw, size: tuple[float, float], path: str | os.PathLike[str], outputs: Outputs) -> None:
    """Draw a figure and write it as the suffix says.

    Args:
        draw: called with a matplotlib figure.
        size: in inches.
        path: ``.png`` or ``.svg``.
        outputs: it is one of these.

    Raises:
        OutputError: another suffix, or it cannot be written.
        MissingPackageError: matplotlib is not installed.
    """
    kind = figure_kind(path)
    with outputs.open(Path(path)) as sink:
        sink.write(_render(draw, size, kind))


def inline_svg(draw: Draw, size: tuple[float, float], name: str, label: str) -> str:
    """A figure as SVG to stand in a page whose content security policy forbids style attributes.

    Args:
        draw: called with a matplotlib figure.
        size: in inches.
        name: what its ids begin with.
        label: what it shows, for those who do not see it.
    """
    root = ET.fromstring(_render(draw, size, "svg", outlines=False))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}metadata" or (child.tag == f"{_SVG}style"):
                parent.remove(child)
    used = set(re.findall(r"#([\w.-]+)", ET.tostring(root, encoding="unicode")))
    for element in root.iter():
        for pair in element.attrib.pop("style", "").split(";"):
            key, _, value = pair.partition(":")
            if value.strip():
                element.set(key.strip(), value.strip())
        if "font" in element.attrib:  # the shorthand is no attribute
            size_of_font = re.search(r"([\d.]+)px", element.attrib.pop("font"))
            element.set("font-size", size_of_font[1] if size_of_font else "10")
        element.attrib.pop("font-family", None)
        if element.get("id") in used:
            element.set("id", f"{name}-{element.get('id')}")
        else:
            element.attrib.pop("id", None)
        for key, value in list(element.attrib.items()):
            if key == _HREF:
                element.set(key, value.replace("#", f"#{name}-"))
            elif "url(#" in value:
                element.set(key, value.replace("url(#", f"url(#{name}-"))
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", label)
    ET.register_namespace("", _SVG[1:-1])
    ET.register_namespace("xlink", _HREF[1 : _HREF.index("}")])
    return ET.tostring(root, encoding="unicode")


def _render(draw: Draw, size: tuple[float, float], kind: str, outlines: bool = True) -> bytes:
    require("matplotlib")
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.font_manager import get_font_names

    known = set(get_font_names())
    style: Any = {
        "font.family": [name for name in _FONTS if name in known] or ["sans-serif"],
        "font.size": 9,
        "svg.fonttype": "path" if outlines else "none",  # a file needs no fonts; a page has its own
        "svg.hashsalt": "gpusim",  # the same figure, the same bytes
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+")  # a script that no font here has: boxes in the text
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()
