"""What the pages say of options, keys, errors and each other is what there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from docs.made_of_code import PAGE_OF, SUMMARIES, parsers
from kz_build.checks.contract import Contract
from kz_build.core.errors import EXIT_CODES, KzError
from kz_build.export import recipe as recipe_schema
from kz_build.pins import schema, source_schema
from kz_build.pins.load import load_project
from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/sample/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EVERYWHERE = {"--json", "--help"}
# Options of git, Guix, Docker and pytest that stand alone.
OF_OTHERS = {"--filter", "--check", "--internal", "--hypothesis-profile"}
FENCED = re.compile(r"^```.*?^```", re.M | re.S)


def text_of(page: str) -> str:
    (path,) = (one for one in PAGES if one.name == f"{page}.md")
    return path.read_text()


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


OPTIONS = {
    verb: {word for action in parser._actions for word in action.option_strings if word.startswith("--")}
    for verb, parser in parsers().items()
}


def commands(page: Path) -> Iterator[tuple[str, set[str]]]:
    """Each `kz VERB …` in a page's code, as (verb, options)."""
    text = page.read_text()
    for code in [*FENCED.findall(text), *re.findall(r"`([^`\n]+)`", FENCED.sub("", text))]:
        said = re.sub(r"(^|\s)# .*", "", code)
        for verb, words in re.findall(r"(?<![\w./-])kz (?:-C \S+ )?((?:device )?[a-z-]+)([^\n;|&)]*)", said):
            yield verb, set(re.findall(r"(?<!\S)\[?(--[a-z-]+)", words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if not link.startswith(("https://", "http://")):
            path, _, anchor = link.partition("#")
            to = page.parent / path if path else page
            assert to.exists(), f"{link}: no such file"
            assert not anchor or anchor in anchors(to), f"{link}: no such heading"


def test_every_verb_is_in_the_table_of_verbs() -> None:
    table = re.findall(r"^\| (\[`kz .+?) \|", (ROOT / "docs/reference/verbs/index.md").read_text(), re.M)
    assert {verb for row in table for verb in re.findall(r"`kz ([a-z-]+)", row)} == set(SUMMARIES)


@pytest.mark.parametrize("verb", OPTIONS)
def test_every_option_is_in_the_page_of_its_verb(verb: str) -> None:
    first = verb.split()[0]
    named = set(re.findall(r"(?<![\w-])--[a-z-]+", text_of(PAGE_OF.get(first, first))))
    assert OPTIONS[verb] - EVERYWHERE <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_page_is_one(page: Path) -> None:
    for verb, words in commands(page):
        assert verb in OPTIONS, f"kz {verb}"
        assert words <= OPTIONS[verb], f"kz {verb} has no {words - OPTIONS[verb]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_in_a_page_is_one(page: Path) -> None:
    alone = set(re.findall(r"`(--[a-z-]+)", FENCED.sub("", page.read_text())))
    assert alone <= set().union(*OPTIONS.values()) | OF_OTHERS


def test_errors_md_is_the_exit_codes() -> None:
    rows = {int(code): name for code, name in re.findall(r"^\| (\d+) \| (\w+) \|", text_of("errors"), re.M)}
    assert rows == {KzError.exit_code: KzError.name, **EXIT_CODES}
    assert dict(declared()).items() <= rows.items()


def declared() -> Iterator[tuple[int, str]]:
    """(exit code, name) of each class of an error that says its own."""
    for path in (ROOT / "kz_build").rglob("*.py"):
        if "exit_code = " not in (text := path.read_text()):
            continue
        for one in ast.walk(ast.parse(text)):
            if isinstance(one, ast.ClassDef):
                said = {ast.unparse(s.targets[0]): s.value for s in one.body if isinstance(s, ast.Assign)}
                if "exit_code" in said:
                    yield ast.literal_eval(said["exit_code"]), ast.literal_eval(said["name"])


def test_pins_md_has_every_key() -> None:
    elsewhere = {"Package": "package", "DeviceUse": "device", "Audit": "audit", "Java": "audit"}
    kinds = {**vars(schema), **vars(source_schema)}.values()
    models = [one for one in kinds if isinstance(one, type) and issubclass(one, source_schema.Strict)]
    for kind, keys in ((one.__name__, one.model_fields) for one in models):
        text = text_of(elsewhere.get(kind, "pins"))
        lacks = [key for key in keys if not re.search(rf"`{key}`|\*\*{key}\*\*|\b{key}:", text)]
        assert not lacks, f"{kind}: {lacks}"


@pytest.mark.parametrize("page", ["pins", "firewall", "first-real-build-without-github"])
def test_what_a_page_writes_into_pins_local_yaml_is_right(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pins.yaml").write_text((ROOT / "pins.yaml").read_text())
    for block in re.findall(r"^```yaml\n(sources:.*?)^```", text_of(page), re.M | re.S):
        (tmp_path / "pins.local.yaml").write_text(block)
        assert set(load_project(tmp_path).pins.replacements) == yaml.safe_load(block)["sources"].keys()


def test_the_table_of_targets_has_their_keys_and_no_others() -> None:
    section = text_of("pins").split("\n## Targets\n")[1].split("\n## ")[0]
    heads = re.findall(r"^\| (`.+?) \|", section, re.M)
    assert {key for head in heads for key in re.findall(r"`(\w+)`", head)} == schema.Target.model_fields.keys()


def test_the_recipe_in_recipes_md_has_every_key_and_no_others() -> None:
    page = text_of("recipes")
    recipe = yaml.safe_load(page.split("\n## The file\n")[1].split("```")[1].removeprefix("yaml\n"))
    keys = recipe_schema.RecipeFile.model_fields.keys()
    assert recipe.keys() | {"upstream"} == keys and "`upstream: {git, commit}`" in page
    for found, model in (
        (recipe["command"][0].keys(), recipe_schema.Stage),
        (recipe["needs"].keys(), recipe_schema.Needs),
        ({key for one in recipe["weights"].values() for key in one}, recipe_schema.Weights),
        (recipe["traps"][0].keys(), recipe_schema.Trap),
    ):
        assert found == model.model_fields.keys(), model.__name__


def test_the_contract_in_pte_md_has_every_key_and_no_others() -> None:
    contract = yaml.safe_load(text_of("pte").split("\n## contract:\n")[1].split("```")[1].removeprefix("yaml\n"))
    assert contract["contract"].keys() == {one.name for one in fields(Contract)}
