# Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
"""The decoders that can be exported, by name."""

from minirt.decoder_constants import MODEL_VERSION
from minirt.weights import convert_mini4_weights, convert_tiny3_weights

DECODERS = {}


def register(name):
    def add(cls):
        if name in DECODERS:
            raise ValueError(f"{name} is registered twice")
        DECODERS[name] = cls
        cls.name = name
        return cls

    return add


class Decoder:
    layers = 1
    kv_io_bit_width = 16
    convert_weights = staticmethod(dict)

    @classmethod
    def prompt_format(cls):
        return MODEL_VERSION[cls.name]

    @classmethod
    def program(cls):
        """The program that the runtime runs: small numbers that depend on the model."""
        return f"const get_kv_io_bit_width {cls.kv_io_bit_width}\nmul {2 * cls.layers + 1}\nadd 7\n"


@register("mini4")
class Mini4(Decoder):
    layers = 32
    convert_weights = staticmethod(convert_mini4_weights)


@register("tiny3-0_6b")
class Tiny3_0_6B(Decoder):
    layers = 28
    convert_weights = staticmethod(convert_tiny3_weights)


@register("tiny3-1_7b")
class Tiny3_1_7B(Decoder):
    layers = 28
    kv_io_bit_width = 8
    convert_weights = staticmethod(convert_tiny3_weights)


@register("glim")
class Glim(Decoder):
    layers = 16
