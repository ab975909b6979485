# Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
"""Which model is which program. `minirt.decoders` is the registry."""
