"""The page of a report: one HTML file that loads nothing, runs nothing, and is the same bytes for the same facts."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.escape import escaped, size
from kz_build.core.host import not_installed
from kz_build.report import charts
from kz_build.report.changes import changes
from kz_build.report.diff import Kind
from kz_build.report.facts import Facts
from kz_build.report.heat_map import SIGNS, heat_maps
from kz_build.report.history import History
from kz_build.report.pin_facts import age
from kz_build.report.size import KINDS as SIZE_KINDS
from kz_build.report.size import by_kind
from kz_build.report.trends import build_trend, figure_trends, size_trends
from kz_build.report.verdict import verdict

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "templates"


def require() -> None:
    """Raise MissingError without the library that renders the page."""
    if importlib.util.find_spec("jinja2") is None:
        raise not_installed("Jinja2", "kz report --html renders its page with it")


def page(facts: Facts, history: History) -> bytes:
    """Return the page. Everything of others in it is escaped: as text of HTML, and its control and bidirectional characters."""
    require()
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    text = _environment().get_template("page.html.j2").render(
        facts=facts,
        history=history,
        verdict=verdict(facts),
        changes=changes(facts, history),
        kinds=[kind.value for kind in Kind],
        maps=heat_maps(facts.stacks),
        signs=SIGNS,
        charts=charts,
        asked={(radar.line, radar.source) for radar in facts.radars},
        period=charts.period(facts.stacks),
        by_kind=by_kind,
        most_parts=15,
        size_kinds=SIZE_KINDS,
        sizes=size_trends(history),
        built=build_trend(history),
        figures=figure_trends(history),
        age=age,
        at=max((stack.trunk.date for stack in facts.stacks if stack.trunk), default=""),
        style_digest=digest,
    )  # fmt: skip
    return text.encode("utf-8")


@functools.cache  # with the templates that it has compiled
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["bytes"] = functools.partial(size, digits=2)
    environment.filters["number"] = _number
    return environment


def _shown(value: object) -> object:
    """Escape what a browser obeys or hides in text of others; what a macro returns is escaped already."""
    return escaped(value) if type(value) is str else value


def _number(value: float) -> str:
    """Return a number with at least three digits that count, and none after 1,000."""
    return f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,.0f}"
