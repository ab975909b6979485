"""Baselines and chat templates: data that people write, and what kz makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.device.baseline import baseline
from kz_build.device.chat import chat, chats
from kz_build.export.load import recipes
from kz_build.export.recipe import RecipeFile
from kz_build.pins.load import load_project
from tests.conftest import ROOT

GOOD = """device: A tablet
match: {models: [T1], soc: SM8750}
figures:
  - {recipe: r, process: shell, date: null, source: me, ttft_ms: 100}
"""


def test_the_shipped_baselines_are_right_and_of_recipes_that_exist() -> None:
    found = baseline(ROOT, "OPD2415", "SM8750")
    assert found and found.device == "OnePlus Pad 3"
    names = {one.name for one in recipes(ROOT, load_project(ROOT).pins)}
    figures = {one.recipe: one for one in found.figures}
    assert set(figures) <= names
    assert figures["qwen3-4b-qnn-hybrid"].ttft_ms == 113
    assert (figures["qwen3-4b-qnn-kv"].ttft_ms, figures["qwen3-4b-qnn-kv"].load_s) == (2865, 4.2)
    assert all(one.source.startswith("https://") and one.process == "app" for one in figures.values())
    assert baseline(ROOT, "OPD2415", "SM8650") is None and baseline(ROOT, "other", "SM8750") is None


def written(root: Path, text: str) -> Path:
    (root / "baselines").mkdir(exist_ok=True)
    (root / "baselines/t.yaml").write_text(text)
    return root


def test_a_project_without_baselines_has_none(tmp_path: Path) -> None:
    assert baseline(tmp_path, "T1", "SM8750") is None
    assert baseline(written(tmp_path, GOOD), "T1", "SM8750")


def test_a_model_of_several_words_has_its_baseline(tmp_path: Path) -> None:
    root = written(tmp_path, GOOD.replace("[T1]", "[Pixel 9 Pro]"))
    assert baseline(root, "Google Pixel 9 Pro", "SM8750") and baseline(root, "Pixel 9 Pro", "SM8750")
    for other in ("Google Pixel 9", "Google Pixel 9 Pro XL", "Google Pro", "Google NotPixel 9 Pro"):
        assert baseline(root, other, "SM8750") is None, other


def test_all_faults_come_at_once_with_their_lines(tmp_path: Path) -> None:
    bad = GOOD.replace("ttft_ms: 100", "ttft_ms: -1, ttftms: 2").replace("shell", "root") + "tolerance: 500\n"
    with pytest.raises(ConfigError) as caught:
        baseline(written(tmp_path, bad), "T1", "SM8750")
    said = str(caught.value)
    for words in (
        "baselines/t.yaml:4",
        "ttft_ms",
        "ttftms: unknown key; did you mean ttft_ms?",
        "process",
        "tolerance",
    ):
        assert words in said, said


def test_every_chat_template_says_the_prompt_once_and_where_it_is_from() -> None:
    assert chats() == ("llama3", "llava", "qwen3")
    for name in chats():
        found = chat(name)
        assert found.template.count("{prompt}") == 1 and found.source.startswith("https://")
        assert found.say("a {prompt} $(b)\n'\"").count("a {prompt} $(b)\n'\"") == 1
    assert chat("qwen3").say("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant"
    assert chat("").say("Hi") == "Hi"
    with pytest.raises(ConfigError, match="gemma"):
        chat("gemma")


def test_a_recipe_may_name_each_of_them() -> None:
    field = RecipeFile.model_fields["chat"]
    assert set(field.annotation.__args__) == {"", *chats()}  # type: ignore[union-attr]
