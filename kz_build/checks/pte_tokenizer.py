"""Checks of a tokenizer with a .pte and the library that loads both (docs/reference/verbs/pte.md)."""

from __future__ import annotations

from kz_build.checks.pte_qnn import PteSubject, library_name, listed
from kz_build.core.check import Check, failed, passed, skipped, warned
from kz_build.formats.re2 import refused

# Models pad their vocabulary to a round number: Qwen3 by 0.2 %, Phi-3 by 0.2 %.
_MOST_UNUSED = 0.1


def expression(subject: PteSubject) -> Check | None:
    """Check that the library can compile the tokenizer's regular expressions: RE2 has no lookahead, PCRE2 does."""
    tokenizer, library = subject.tokenizer, subject.library
    if not tokenizer or not tokenizer.expressions:
        return None
    beyond_re2 = next(filter(None, map(refused, tokenizer.expressions)), "")
    if not beyond_re2:
        return passed("RE2 takes its regular expressions")
    needs = f"its regular expression has what RE2 refuses ({beyond_re2}), so it needs PCRE2"
    if not library:
        return skipped(f"{needs}; --lib says whether the library has it")
    if "PCRE2" in library.expressions:
        return passed(f"{needs}, and {library_name(subject)} has it")
    if not library.expressions:
        return skipped(f"{needs}, and {library_name(subject)} has no tokenizers that kz recognises")
    return failed(
        f"{needs}, and {library_name(subject)} has RE2 alone (Failed to setup pretokenizer): build it with SUPPORT_REGEX_LOOKAHEAD=ON"
    )


def vocabulary(subject: PteSubject) -> Check | None:
    """Check that the model has a row for every token."""
    tokenizer, rows = subject.tokenizer, subject.pte.vocabulary
    if not tokenizer:
        return None
    if not rows:
        return skipped("neither get_vocab_size nor its logits say how many tokens the model knows")
    evidence = f"the model knows {rows:,} tokens and the tokenizer's ids go up to {tokenizer.last:,}"
    if tokenizer.last >= rows:
        return failed(f"{evidence}: it is another model's tokenizer, or has tokens added later")
    if tokenizer.last + 1 < rows * (1 - _MOST_UNUSED):
        return warned(f"{evidence}: is it another model's tokenizer?")
    return passed(evidence)


def eos(subject: PteSubject) -> Check | None:
    """Check that the model ends a text with a token that the tokenizer has, the one of its configuration among them."""
    tokenizer, ids = subject.tokenizer, subject.pte.eos_ids
    if not tokenizer:
        return None
    end = tokenizer.special.get(tokenizer.eos)
    if tokenizer.eos and end is None:
        return failed(f"{tokenizer.eos} ends a text and is none of the tokenizer's special tokens")
    if not ids:
        return skipped("the file names no end of text (get_eos_ids): the runner chooses")
    if unknown := set(ids) - tokenizer.ids:
        return failed(f"get_eos_ids is {listed(map(str, ids))}, and the tokenizer has no {listed(map(str, unknown))}")
    if end is not None and end not in ids:
        return failed(
            f"{tokenizer.eos} ({end}) ends a text and get_eos_ids has only {listed(map(str, ids))}: the runner would go on after it"
        )
    return passed(f"get_eos_ids is {listed(map(str, ids))}, tokens of the tokenizer")


def chat_tokens(subject: PteSubject) -> Check | None:
    """Check that what the chat template writes are tokens, not text that is split."""
    tokenizer = subject.tokenizer
    if not tokenizer or not tokenizer.chat_tokens:
        return None
    if missing := set(tokenizer.chat_tokens) - tokenizer.special.keys():
        return failed(f"the chat template writes {listed(missing)}, which the tokenizer would split like any text")
    return passed(f"the chat template's {len(tokenizer.chat_tokens)} special tokens are in it")
