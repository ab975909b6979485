"""What a reply must be: text that says something, the recipe's answer, and the host's tokens."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kz_build.export
from kz_build.device.reply import Greedy, greedy, judged, senseless

PARIS = "The capital of France is Paris. It lies on the Seine, and two million people live there."
SAID = Greedy("p", (12, 5, 9, 5), ("The", " capital", " is", " capital"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("!" * 64, "it repeats '!' 64 times"),
        ("!!!! " * 16, "it repeats '!' 64 times"),
        ("ab cd\n" * 16, "it repeats 'abcd' 16 times"),
        ("I see. " + "the end of the line " * 20, "it repeats"),
        ("!!a!!b!c!!!d!!e!!f!g!!", "of it is '!'"),
        ("\ufffd\ufffd\ufffdok\ufffd", "33% of its characters are printable"),
        ("\x01\x02\x03", "0% of its characters are printable"),
    ],
)
def test_text_that_no_working_model_says(text: str, why: str) -> None:
    assert why in senseless(text)
    check = judged(text, "", "p", None)
    assert check.failed and why in check.evidence


@pytest.mark.parametrize(
    "text",
    [
        "", "!!!!", "Paris", "10000000", PARIS, "<think>\nOkay, the user asks for a capital.\n</think>\n\nParis 🗼", "巴黎是法国的首都，也是最大的城市。",
        "12 67 86 181 144 215 58 41 212 43 222 93 216 63 66 81 156 19 102 5", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16",
        "The capital of France is Paris. " * 8, "- one\n- two\n- three\n- four\n- five\n- six\n- seven\n- eight",
    ],
)  # fmt: skip
def test_text_that_one_may_say(text: str) -> None:
    assert senseless(text) == ""


def test_the_recipes_answer_must_be_in_it() -> None:
    assert "it has 'paris'" in judged(PARIS, "paris", "p", None).evidence
    check = judged("It is Lyon.", "Paris", "p", None)
    assert check.failed and check.evidence == "the recipe expects 'Paris' in it: It is Lyon."


def test_the_first_token_that_is_not_the_hosts_is_named() -> None:
    assert (
        "the device says what the host's rehearsal said, 4 tokens"
        in judged("The capital is capital", "", "p", SAID).evidence
    )
    check = judged("The capital capital was", "", "p", SAID)
    assert check.failed and check.evidence == "token 3 of 4: the host said 9 ' is', the device 5 ' capital'"
    assert "token 2 of 4: the host said 5 ' capital', the device ' town'" in judged("The town", "", "p", SAID).evidence
    assert "the device said nothing" in judged("", "", "p", SAID).evidence
    assert not judged("The capi", "", "p", SAID).failed, "it ended earlier, by its number of tokens"
    other = judged("Hello", "", "another prompt", SAID)
    assert not other.failed and "another prompt" in other.evidence


def test_random_weights_say_what_the_host_said_and_nothing_sensible() -> None:
    noise = Greedy("p", (1,) * 40, ("!",) * 40)
    assert not judged("!" * 40, "", "p", noise, sensible=False).failed
    assert judged("!!?" + "!" * 37, "", "p", noise, sensible=False).evidence.startswith(
        "token 3 of 40: the host said 1 '!'"
    )


def test_a_rehearsal_is_read_from_an_exports_record() -> None:
    assert (
        greedy({"steps": [], "greedy": {"prompt": "p", "tokens": [12, 5, 9, 5], "pieces": list(SAID.pieces)}}) == SAID
    )
    for broken in (
        {},
        {"greedy": None},
        {"greedy": {"prompt": "p", "tokens": [1], "pieces": []}},
        {"greedy": {"prompt": "p"}},
        {"greedy": {"prompt": "p", "tokens": [float("inf")], "pieces": ["a"]}},
    ):
        assert greedy(broken) is None


def test_the_scripts_write_what_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greedy tokens of a model that counts: each token once at its place, and letters of several tokens with the last of them."""
    words = {1: b"<s>", 2: b"one", 3: b" two", 4: b" \xc3", 5: b"\xa4", 6: b"!"}
    tokenizer = SimpleNamespace(
        encode=lambda text, bos, eos: [1] * bos + [2],
        decode=lambda tokens: b"".join(words[one] for one in tokens).decode("utf-8", "replace"),
    )
    monkeypatch.setitem(sys.modules, "pytorch_tokenizers", SimpleNamespace(get_tokenizer=lambda path: tokenizer))
    monkeypatch.syspath_prepend(str(Path(kz_build.export.__file__).with_name("scripts")))
    asked: list[tuple[int, int]] = []

    def step(token: int, at: int) -> SimpleNamespace:
        asked.append((token, at))
        return SimpleNamespace(argmax=lambda: token + 1)

    said = importlib.import_module("greedy").greedy("one", "tokenizer.model", step, 5, bos=True)
    monkeypatch.delitem(sys.modules, "greedy")
    assert asked == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]
    assert greedy({"greedy": said}) == Greedy("one", (3, 4, 5, 6), (" two", "", " \xe4", "!"))
