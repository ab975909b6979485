# Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
"""What the runtime must know about a decoder."""

# model name -> prompt format
MODEL_VERSION = {
    "stories": "plain",
    "mini4": "mini4",
    "tiny3-0_6b": "tiny3",
    "tiny3-1_7b": "tiny3",
    "glim": "plain",
}
