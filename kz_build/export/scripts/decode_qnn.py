"""Run by an environment's own Python: a decoder of Qualcomm's llama.py, in QNN's emulation on this machine, against torch.

    decode_qnn.py --pte F.pte --reference decode_qdq.pt2 [--tokens N] [--tokenizer F --prompt TEXT]

The reference is what llama.py saves of its quantized torch model before QNN sees it. It takes all tokens at once; the .pte takes
them one by one, and in blocks where it has prefill_forward too. Logits are compared as the integers that the .pte gives. Its
last line is {"steps": [{"cosine": …, "same": …, "off": …}, …], "prefill": …}: `off` is the largest difference in those integers, `same` is
of the arg-max, `prefill` whether blocks give the very numbers that single tokens give (null without that method, or with fewer tokens than a block).
With a tokenizer it also has "greedy": the most likely tokens of the .pte after that prompt, and their text, for a device to repeat.
"""

import argparse
import gc
import json

import torch
from executorch.runtime import Runtime

# Upstream's masks: 0 where a token is seen, this where not (masking_utils.py); in the .pte the ends of uint16.
HIDDEN, MOST = -255.0, 65535


class Decoder:
    """The .pte, its caches, and the values of its constant methods."""

    def __init__(self, path: str) -> None:
        self.program = Runtime.get().load_program(path)  # kept: its methods do not keep it alive
        self.context, self.vocabulary, self.layers, self.heads, self.width = (
            self.constant(f"get_{name}")
            for name in ("max_context_len", "vocab_size", "n_layers", "n_kv_heads", "head_dim")
        )
        self.scale, self.zero = self.constant("get_logits_scale"), self.constant("get_logits_zero_point")
        self.method = None

    def constant(self, name: str) -> int:
        return self.program.load_method(name).execute([])[0]

    def start(self, name: str, block: int) -> None:
        self.method, self.block, left = self.program.load_method(name), block, self.context - block
        self.keys = [torch.zeros(1, self.heads, self.width, left, dtype=torch.uint8) for _ in range(self.layers)]
        self.values = [torch.zeros(1, self.heads, left, self.width, dtype=torch.uint8) for _ in range(self.layers)]

    def step(self, tokens: torch.Tensor, at: int) -> torch.Tensor:
        """Return the logits of a block of tokens from position `at` on, as integers; update the caches."""
        mask = torch.zeros(1, 1, self.block, self.context, dtype=torch.int32)
        mask[..., :at] = MOST
        mask[..., self.context - self.block :] = torch.ones(self.block, self.block).tril().int() * MOST
        places = torch.arange(at, at + self.block, dtype=torch.int32)[None]
        out = self.method.execute([tokens, mask.to(torch.uint16), places, *self.keys, *self.values])
        for layer in range(self.layers):
            self.keys[layer][..., at : at + self.block] = out[1 + layer]
            self.values[layer][:, :, at : at + self.block] = out[1 + self.layers + layer]
        return out[0].view(torch.uint16).to(torch.int64)[0]

    def run(self, name: str, block: int, tokens: torch.Tensor) -> torch.Tensor:
        self.start(name, block)
        starts = range(0, tokens.numel(), block)
        return torch.cat([self.step(tokens[None, at : at + block].contiguous(), at) for at in starts])


def expected(path: str, decoder: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of the quantized torch model, in the integers of the .pte."""
    model, all_tokens = torch.export.load(path).module(), torch.zeros(1, decoder.context, dtype=torch.int32)
    all_tokens[0, : tokens.numel()] = tokens
    mask = torch.full((1, 1, decoder.context, decoder.context), HIDDEN).triu(1)
    places = torch.arange(decoder.context, dtype=torch.int32)[None]
    keys = [torch.zeros(1, decoder.heads, decoder.width, 0)] * decoder.layers
    values = [torch.zeros(1, decoder.heads, 0, decoder.width)] * decoder.layers
    with torch.no_grad():
        logits = model(all_tokens, mask, places, *keys, *values)[0][0, : tokens.numel()]
    return (torch.round(logits / decoder.scale) + decoder.zero).clamp(0, MOST).to(torch.int64)


def say(decoder: Decoder, tokenizer_path: str, prompt: str, most: int) -> dict:
    """Return what the .pte says after a prompt. Upstream's runner begins it with the token of a beginning."""
    from greedy import greedy

    decoder.start("kv_forward", 1)

    def step(token: int, at: int) -> torch.Tensor:
        return decoder.step(torch.tensor([[token]], dtype=torch.int32), at)[-1]

    return greedy(prompt, tokenizer_path, step, most, bos=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pte", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--tokenizer", default="")
    parser.add_argument("--prompt", default="")
    parser.add_argument("--most", type=int, default=64, help="tokens of prompt and answer together")
    arguments = parser.parse_args()
    decoder = Decoder(arguments.pte)
    torch.manual_seed(1)
    tokens = torch.randint(0, decoder.vocabulary, (arguments.tokens,), dtype=torch.int32)
    result, wanted = decoder.run("kv_forward", 1, tokens), expected(arguments.reference, decoder, tokens)
    same_in_blocks = None
    if "prefill_forward" in decoder.program.method_names:
        block = decoder.program.load_method("prefill_forward").metadata.input_tensor_meta(0).sizes()[1]
        if whole := tokens.numel() // block * block:
            same_in_blocks = torch.equal(decoder.run("prefill_forward", block, tokens[:whole]), result[:whole])
    steps = []
    for one, other in zip(result, wanted, strict=True):
        near = torch.nn.functional.cosine_similarity(
            (one - decoder.zero).double(), (other - decoder.zero).double(), dim=0
        )
        same = bool(one.argmax() == other.argmax())
        steps.append({"cosine": near.item(), "same": same, "off": int((one - other).abs().max())})
    reply = (
        {"greedy": say(decoder, arguments.tokenizer, arguments.prompt, arguments.most)} if arguments.tokenizer else {}
    )
    del decoder  # QNN prints when it is unloaded, and the last line must be ours
    gc.collect()
    print("\n" + json.dumps({"steps": steps, "prefill": same_in_blocks, **reply}), flush=True)


if __name__ == "__main__":
    main()
