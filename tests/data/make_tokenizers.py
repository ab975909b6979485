"""Write the tokenizers in fuzz/tokenizer: `pip install tokenizers==0.23.3 sentencepiece==0.2.3`, then run it.

tokenizer-qwen has Qwen3's expression and a chat's special tokens; tokenizer-tiktoken has Llama 3's format.
"""

import base64
import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).parent / "fuzz" / "tokenizer"
TEXT = (HERE.parents[3] / "README.md").read_text().splitlines()
QWEN3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

tokenizer = Tokenizer(models.BPE())
tokenizer.normalizer = normalizers.NFC()
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(QWEN3), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
tokenizer.add_special_tokens(SPECIAL)
(HERE / "tokenizer-qwen").write_text(
    json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
)

model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(TEXT), model_writer=model, vocab_size=200, hard_vocab_limit=False,
    user_defined_symbols=["<start_of_turn>", "<end_of_turn>"], normalization_rule_name="identity", num_threads=1, minloglevel=2,
)  # fmt: skip
(HERE / "tokenizer-sentencepiece").write_bytes(model.getvalue())

ranks = [bytes([byte]) for byte in range(256)] + [b"th", b"the"]
lines = (f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks))
(HERE / "tokenizer-tiktoken").write_text("".join(lines))
