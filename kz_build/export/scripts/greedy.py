"""What a model says after a prompt, the most likely token each time. Run by an environment's own Python, beside the decode checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytorch_tokenizers import get_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


def greedy(prompt: str, tokenizer_path: str, step: Callable[[int, int], torch.Tensor], most: int, *, bos: bool) -> dict:
    """Return the tokens, and the text that each adds, until prompt and answer are `most` tokens.

    `step` takes a token and its position, and returns the logits after it. `bos`: the runner puts that token first.
    """
    tokenizer = get_tokenizer(tokenizer_path)
    tokens = tokenizer.encode(prompt, bos=bos, eos=False)
    prompted, pieces, text = len(tokens), [], ""
    for at in range(most):
        logits = step(tokens[at], at)
        if at + 1 < len(tokens):
            continue
        tokens.append(int(logits.argmax()))
        whole = tokenizer.decode(tokens)[len(tokenizer.decode(tokens[:prompted])) :]
        # A character of several tokens belongs to the last of them.
        pieces.append("" if whole.endswith("\N{REPLACEMENT CHARACTER}") else whole[len(text) :])
        text += pieces[-1]
    return {"prompt": prompt, "tokens": tokens[prompted:], "pieces": pieces}
