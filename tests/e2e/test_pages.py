"""The commands of the README, the tutorial and the guides, run in the order in which a reader types them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from docs.make_terminal import COMMANDS, PICTURE, picture, text_of
from kz_build.cli.parser import parser
from tests.conftest import ROOT, Kz
from tests.e2e.console import BLOCK, commands, kz_commands, pattern, shell

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[tg]u*/*.md"))]  # with the tutorial and the guides
OF_THE_CHECKOUT = ("pins.yaml", "pins.lock", "patches", "baselines", "containers")

XMLNS = "http://www.w3.org/2000/svg"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def checkout(built: Path, tmp_path: Path) -> Path:
    """A checkout of kz whose sample is built, as README's first command leaves it."""
    folder = tmp_path / "kz_build"
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/activate").touch()
    shutil.copytree(built, folder / "examples/sample", symlinks=True)
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    for file in OF_THE_CHECKOUT:
        (folder / file).symlink_to(ROOT / file)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_does_what_it_shows(
    page: Path, checkout: Path, tmp_path: Path, clean_env: dict[str, str], kz: Kz
) -> None:
    prompt = shell(checkout, clean_env, kz, tmp_path / "programs")
    for command in commands(page.read_text()):
        for words in kz_commands(command.typed):
            parser().parse_args(words)
        if not command.reason:
            prompt.run(command)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_block_of_commands_is_one_that_a_test_reads(page: Path) -> None:
    text = page.read_text()
    assert not re.findall(r"^ *```(?:sh|bash|shell)$", text, re.M)
    assert text.count("<!-- not run: ") == len({block.start() for block in BLOCK.finditer(text) if block["reason"]})


def test_the_picture_of_a_terminal_is_what_kz_prints(
    checkout: Path, tmp_path: Path, clean_env: dict[str, str], kz: Kz
) -> None:
    drawn = PICTURE.read_text()
    text = text_of(drawn)
    assert picture(text) == drawn and "//" not in drawn.replace(XMLNS, "").replace("https://www.textualize.io", "")
    prompt = shell(checkout, clean_env, kz, tmp_path / "programs")
    typed = list(commands(f"```console\n{text}\n```"))
    assert tuple(command.typed for command in typed) == COMMANDS
    for command in typed:  # a copy of the sample is audited again, and progress is not in the picture
        prompt.run(command._replace(shown=command.shown.replace("6,360 B", "6,360 B…") + "\n…"))


def test_a_command_that_prints_something_else_is_noticed() -> None:
    shown = pattern("a\n…\nb … d\n…")
    assert shown.fullmatch("a\nb c d\n") and shown.fullmatch("a\nx\ny\nb d d\nz\n")
    assert not shown.fullmatch("a\nb c\n") and not shown.fullmatch("x\na\nb c d\n")
    assert list(kz_commands("cd x && kz -C y verify --tags 'v1.*' | tee kz; kz x  # kz z")) == [
        ["-C", "y", "verify", "--tags", "v1.*"],
        ["x"],
    ]
