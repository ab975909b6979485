"""Run by an environment's own Python: decode steps of an exported .pte against eager torch.

    decode_llm.py --pte F --checkpoint F --params F [--qmode Q --group-size N] [--steps N] [--tokenizer F --prompt TEXT]

The reference is upstream's own model from the same checkpoint, quantized as the export did, without a KV cache: every step sees
all tokens again. Its last line is {"steps": [{"cosine": …, "same": …, "float_cosine": …}, …]}; `same` is of the arg-max. With a
tokenizer it also has "greedy": the most likely tokens of the .pte after that prompt, and their text, for a device to repeat.
"""

import argparse
import json

import executorch.kernels.quantized  # noqa: F401  registers its operators
import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.source_transformation.quantize import quantize
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  likewise
from executorch.runtime import Runtime


def load_model(parameters: dict, checkpoint: str) -> torch.nn.Module:
    model = construct_transformer(ModelArgs(**parameters, use_kv_cache=False))
    model.load_state_dict(torch.load(checkpoint, weights_only=True), strict=False)
    return model.eval()


def last_token(logits: object) -> torch.Tensor:
    tensor = logits[0] if isinstance(logits, tuple | list) else logits
    return tensor.flatten(0, -2)[-1]


def say(path: str, tokenizer_path: str, prompt: str, most: int) -> dict:
    """Return what the .pte says after a prompt, until prompt and answer are `most` tokens."""
    from greedy import greedy

    program = Runtime.get().load_program(path)
    method = program.load_method("forward")

    def step(token: int, at: int) -> torch.Tensor:
        return method.execute([torch.tensor([[token]]), torch.tensor([at])])[0].flatten()

    return greedy(prompt, tokenizer_path, step, most, bos=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("pte", "checkpoint", "params"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--qmode", default="")
    parser.add_argument("--group-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--tokenizer", default="")
    parser.add_argument("--prompt", default="")
    parser.add_argument("--tokens", type=int, default=64, help="prompt and answer together")
    arguments = parser.parse_args()
    with open(arguments.params) as file:
        parameters = json.load(file)
    plain = load_model(parameters, arguments.checkpoint)
    eager = load_model(parameters, arguments.checkpoint)
    if arguments.qmode:
        eager = quantize(eager, qmode=arguments.qmode, group_size=arguments.group_size)
    program = Runtime.get().load_program(arguments.pte)  # kept: its methods do not keep it alive
    method = program.load_method("forward")
    torch.manual_seed(1)
    tokens, steps = torch.randint(0, parameters["vocab_size"], (1, 1)), []
    for step in range(arguments.steps):
        out = method.execute([tokens[:, -1:], torch.tensor([step])])[0].flatten()
        with torch.no_grad():
            wanted, unquantized = last_token(eager(tokens)), last_token(plain(tokens))
        alike = torch.nn.functional.cosine_similarity
        steps.append(
            {
                "cosine": alike(out, wanted, dim=0).item(),
                "same": bool(out.argmax() == wanted.argmax()),
                "float_cosine": alike(out, unquantized, dim=0).item(),
            }
        )
        tokens = torch.cat([tokens, wanted.argmax().reshape(1, 1)], dim=1)
    reply = (
        {"greedy": say(arguments.pte, arguments.tokenizer, arguments.prompt, arguments.tokens)}
        if arguments.tokenizer
        else {}
    )
    print("\n" + json.dumps({"steps": steps, **reply}))


if __name__ == "__main__":
    main()
