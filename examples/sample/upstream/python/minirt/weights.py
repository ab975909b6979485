# Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
"""Converts foreign checkpoints to our names."""

from tinytune.mini4 import rename_weights


def convert_tiny3_weights(weights):
    return {name.removeprefix("model."): value for name, value in weights.items()}


def convert_mini4_weights(weights):
    return rename_weights(weights)
