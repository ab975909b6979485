"""Run by an environment's own Python: decode steps of an exported .pte against eager torch.

    decode_llm.py --pte F --checkpoint F --params F [--qmode Q --group-size N] [--steps N]

The reference is upstream's own model from the same checkpoint, quantized as the export did, without a KV cache: every step sees
all tokens anew. Says, as the last line, {"steps": [{"cosine": …, "same": …, "float_cosine": …}, …]}; `same` is of the arg-max.
"""

import argparse
import json

import executorch.kernels.quantized  # noqa: F401  its operators register themselves
import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.source_transformation.quantize import quantize
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  likewise
from executorch.runtime import Runtime


def model(parameters: dict, checkpoint: str) -> torch.nn.Module:
    made = construct_transformer(ModelArgs(**parameters, use_kv_cache=False))
    made.load_state_dict(torch.load(checkpoint, weights_only=True), strict=False)
    return made.eval()


def last(logits: object) -> torch.Tensor:
    found = logits[0] if isinstance(logits, tuple | list) else logits
    return found.flatten(0, -2)[-1]


def main() -> None:
    asked = argparse.ArgumentParser()
    for name in ("pte", "checkpoint", "params"):
        asked.add_argument(f"--{name}", required=True)
    asked.add_argument("--qmode", default="")
    asked.add_argument("--group-size", type=int, default=32)
    asked.add_argument("--steps", type=int, default=8)
    asked = asked.parse_args()
    with open(asked.params) as file:
        parameters = json.load(file)
    plain = model(parameters, asked.checkpoint)
    eager = model(parameters, asked.checkpoint)
    if asked.qmode:
        eager = quantize(eager, qmode=asked.qmode, group_size=asked.group_size)
    program = Runtime.get().load_program(asked.pte)  # held: its methods do not keep it alive
    method = program.load_method("forward")
    torch.manual_seed(1)
    tokens, steps = torch.randint(0, parameters["vocab_size"], (1, 1)), []
    for step in range(asked.steps):
        out = method.execute([tokens[:, -1:], torch.tensor([step])])[0].flatten()
        with torch.no_grad():
            wanted, unquantized = last(eager(tokens)), last(plain(tokens))
        alike = torch.nn.functional.cosine_similarity
        steps.append(
            {
                "cosine": alike(out, wanted, dim=0).item(),
                "same": bool(out.argmax() == wanted.argmax()),
                "float_cosine": alike(out, unquantized, dim=0).item(),
            }
        )
        tokens = torch.cat([tokens, wanted.argmax().reshape(1, 1)], dim=1)
    print("\n" + json.dumps({"steps": steps}))


if __name__ == "__main__":
    main()
