"""Run by an environment's own Python: makes the weights and tokenizers of recipes that need no download.

weights.py random SHAPE.json SEED OUT.pth      weights of upstream's Llama in that shape, drawn with that seed
weights.py tokenizer VOCABULARY OUT.model      a SentencePiece tokenizer, trained on a fixed text
"""

import io
import json
import random
import sys

SYLLABLES = [first + vowel for first in "bdfgklmnprstvw" for vowel in "aeiou"]


def draw(shape: str, seed: str, out: str) -> None:
    import torch
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    with open(shape) as file:
        parameters = json.load(file)
    torch.manual_seed(int(seed))
    data = io.BytesIO()  # a file's name would be stored in it, so that the same weights would differ elsewhere
    torch.save(construct_transformer(ModelArgs(**parameters)).state_dict(), data)
    with open(out, "wb") as file:
        file.write(data.getvalue())


def train(vocabulary: str, out: str) -> None:
    import sentencepiece

    drawn = random.Random(0)
    words = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(2000)]
    text = [" ".join(drawn.choices(words, k=12)) for _ in range(2000)]
    data = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=data,
        model_type="bpe",
        vocab_size=int(vocabulary),
        byte_fallback=True,
        num_threads=1,
        minloglevel=2,
    )
    with open(out, "wb") as file:
        file.write(data.getvalue())


if __name__ == "__main__":
    {"random": draw, "tokenizer": train}[sys.argv[1]](*sys.argv[2:])
