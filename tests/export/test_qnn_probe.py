"""The gate behind the probe of an environment's QNN: what its script printed, and whether that is a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.env import plain
from kz_build.core.errors import NotReadyError
from kz_build.export.environment import Environment
from kz_build.export.qnn_probe import LIBRARIES, probe


@pytest.mark.parametrize("off", ["1.002", "NaN", "Infinity"])
def test_a_layer_that_differs_from_torch_or_gives_no_number_is_refused(tmp_path: Path, off: str) -> None:
    for name in LIBRARIES:
        (tmp_path / name).write_bytes(b"")
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh\necho '{{"off": {off}}}'\n""")
    python.chmod(0o755)
    environment = Environment(tmp_path, python, plain(), "key", {}, {})
    with pytest.raises(NotReadyError, match="differs from torch for one layer"):
        probe(tmp_path / "store", environment, "qnn 2.37", tmp_path, "SM8750")
