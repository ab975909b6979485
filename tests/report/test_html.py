"""The page of kz report --html: one file, safe with anyone's text in it, and readable by everybody."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import importlib.util
import re
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import kz_build.report.html
from kz_build.core.errors import MissingError
from kz_build.report.facts import Facts, StackFacts
from kz_build.report.history import History
from kz_build.report.html import page
from tests.conftest import Kz
from tests.report.page_facts import facts, nothing

STYLE = (Path(kz_build.report.html.__file__).parent / "templates/style.css").read_text()
HOSTILE = (
    "<script>alert(1)</script>",
    "]]></svg><img src=x onerror=alert(1)>",
    '"onload="alert(1)',
    "' onmouseover='x",
    "</title></style><!-- -->",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202eevil\u2066\x1b[31m\x00\x07\u200b",
    "&lt;b&gt; &#x3c;script",
    "https://user:secret@host/?token=abc",
)


class Parsed(html.parser.HTMLParser):
    """The elements of a page, each with its attributes, and the text outside of the style sheet."""

    VOID = ("meta", "br", "rect", "line", "circle")

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(data.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs), self.open[-1] if self.open else ""))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), self.open[-1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def rendered(of: Facts) -> bytes:
    return page(of, History((), {}))


@pytest.fixture(scope="module")
def parsed() -> Parsed:
    return Parsed(rendered(facts()))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_others_stays_text(text: str, parsed: Parsed) -> None:
    """Every place that a commit, a device, a log or a name can reach has it; the page has the same elements as ever."""
    data = rendered(facts(text))
    hostile = Parsed(data)
    assert [(tag, sorted(found), above) for tag, found, above in hostile.elements] == [
        (tag, sorted(found), above) for tag, found, above in parsed.elements
    ]
    for _, attributes, _ in hostile.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", data.decode())
    assert (
        b"secret@" not in data
        and b"=abc" not in data
        and b"49" not in data.partition(b"</style>")[2].partition(b"7 * 7")[2][:4]
    )
    if text.isprintable() and "user:" not in text:
        assert hostile.text.count(text) > 5 or sum(text in one for one in hostile.text) > 5


def test_the_page_loads_and_runs_nothing(parsed: Parsed) -> None:
    tags = {tag for tag, _, _ in parsed.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "use", "image"}
    targets = {found["href"] for _, found, _ in parsed.elements if "href" in found}
    assert targets and all(target and target.startswith("#") for target in targets)
    assert not any("style" in found or "src" in found for _, found, _ in parsed.elements)
    assert "url(" not in STYLE and "@import" not in STYLE


def test_the_policy_allows_the_one_style_sheet_and_nothing_else() -> None:
    data = rendered(facts()).decode()
    style = data.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', data)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_links_lead_to_a_place_on_the_page(parsed: Parsed) -> None:
    places = [found["id"] for _, found, _ in parsed.elements if "id" in found]
    assert len(places) == len(set(places))
    assert {found["href"] for _, found, _ in parsed.elements if "href" in found} <= {f"#{place}" for place in places}


def test_every_table_has_a_caption_and_heads_with_a_scope(parsed: Parsed) -> None:
    tables = [tag for tag, _, _ in parsed.elements if tag == "table"]
    assert len(tables) > 6 and len(
        [tag for tag, _, above in parsed.elements if (tag, above) == ("caption", "table")]
    ) == len(tables)
    heads = [found.get("scope") for tag, found, _ in parsed.elements if tag == "th"]
    assert set(heads) == {"col", "row"}
    pictures = [found for tag, found, _ in parsed.elements if tag == "svg"]
    assert pictures and all(found.get("aria-label") or found.get("aria-hidden") for found in pictures)


def test_no_meaning_is_in_a_colour_alone(parsed: Parsed) -> None:
    text = "".join(parsed.text)
    for sign in ("✓ clean", "✕ content", "EMULATED", "worse", "PASS", "SKIP", "FAIL"):
        assert sign in text, sign


def test_what_to_know_first_stands_before_the_sentence() -> None:
    data = rendered(facts()).decode()
    order = [
        "override",
        "EMULATED",
        "skipped",
        "unsigned",
        'class="sentence"',
        "What changed",
        "Patches on every version",
    ]
    places = [data.index(word, data.index("<main>")) for word in order]
    assert places == sorted(places)
    assert "A move to " in data and "would break 1 of 1 patches of l1" in data and "Something fails" in data


def test_the_same_facts_are_the_same_bytes() -> None:
    assert rendered(facts()) == rendered(facts())


def test_a_project_in_which_nothing_was_done_says_which_commands_do_it() -> None:
    data = rendered(nothing()).decode()
    for command in ("kz build", "kz export list", "kz device run", "kz health", "kz radar --open"):
        assert f"<code>{command}</code>" in data, command
    assert "Nothing was built or judged yet." in data and data.split("<main>")[1].count("Nothing fails") == 1


def test_a_project_of_patches_alone_has_no_sections_of_what_it_never_makes() -> None:
    data = rendered(replace(nothing(), builds_nothing=True)).decode()
    assert "kz health" in data and 'id="pins"' in data
    for section in ("sizes", "builds", "exports", "devices", "pairs"):
        assert f'id="{section}"' not in data and f'href="#{section}"' not in data, section


def test_what_only_the_files_say_is_told_apart_from_what_a_device_ran() -> None:
    data = rendered(facts()).decode()
    ran, untried = data[data.index('<section id="pairs">') :].split("<tbody>")[1].split("</tr>")[:2]
    assert "FAIL" in ran and "EMULATED" in ran and "by the files" not in ran
    assert "PASS" in untried and "by the files" in untried and "not run yet: <code>kz text</code>" in untried


def test_a_patch_that_differs_from_the_line_before_opens_to_its_diff() -> None:
    mail = "From 0\nSubject: [PATCH] x\n\nindex 1..2 100644\n@@ -{} +7,3 @@ def f():\n-old\n+{}\n"
    first, *others = facts().stacks

    def stack(line: str, **texts: str) -> StackFacts:
        patches = (
            first.patches[0]._replace(name=f"0001-{slug}.patch", slug=slug, text=text) for slug, text in texts.items()
        )
        return first._replace(line=line, patches=tuple(patches))

    old = stack("l1", x=mail.format("7,3", "<b>new</b>"), same=mail.format("7,3", "1"), gone="")
    new = stack("l2", x=mail.format("9,3", "<i>newer</i>"), same=mail.format("9,3", "1"), added="")
    of = replace(facts(), stacks=(old, new, *others))
    data = rendered(of).decode()
    [block] = re.findall(r"<details>(.*?)</details>", data, re.S)
    assert "<summary>0001-x: 2 lines differ from l1</summary>" in block
    assert "\n-+&lt;b&gt;new&lt;/b&gt;\n++&lt;i&gt;newer&lt;/i&gt;\n" in block and "index 1..2" not in block
    assert "Of the patches of l1, 1 are the same, 1 changed, 1 gone: gone; new: added." in data
    Parsed(data.encode())


def test_without_jinja_the_message_has_the_line_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "jinja2" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(MissingError) as caught:
        rendered(facts())
    assert caught.value.exit_code == 6 and f"{sys.executable} -m pip install Jinja2" in str(caught.value)


def test_the_page_is_of_all_lines(sample: Path, kz: Kz) -> None:
    done = kz("-C", sample, "report", "--html", "--line", "sample-0.1")
    assert done.returncode == 2 and "--html shows all lines" in done.stderr and not (sample / "out").exists()


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def palettes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    light, dark, printed = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks)
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark, "printed": {**light, **printed}}


@pytest.mark.parametrize("name", ["light", "dark", "printed"])
def test_colours_have_the_contrast_that_wcag_aa_asks_for(name: str) -> None:
    palette = palettes()[name]
    states = ("applies", "moved", "upstreamed", "merged", "broken", "unknown")
    texts = [
        ("text", "bg"),
        ("soft", "bg"),
        ("link", "bg"),
        ("text", "panel"),
        ("soft", "panel"),
        ("text", "upstreamed-bg"),
    ]
    texts += [(f"{one}-text", f"{one}-bg") for one in (*states, "bad", "good", "warn")]
    wrong = [(a, b) for a, b in texts if contrast(palette[a], palette[b]) < 4.5]
    kinds = (
        "code",
        "constants",
        "data",
        "linking",
        "names",
        "debug",
        "other",
        "phase0",
        "phase1",
        "dot",
        "band",
        "focus",
    )
    wrong += [(one, "bg") for one in (*states, *kinds, "need") if contrast(palette[one], palette["bg"]) < 3]
    assert not wrong + [("need", "upstreamed-bg")] * (contrast(palette["need"], palette["upstreamed-bg"]) < 3)
