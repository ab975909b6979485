"""Whether this machine can cut a command off its network, as `unshare` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.build.engine import no_network_prefix
from kz_build.core.errors import CommandError


@pytest.mark.parametrize(("script", "says"), [("exit 126", "ended with 126"), ("kill -9 $$", "killed by signal 9")])
def test_a_probe_that_failed_is_not_a_kernel_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    """A build with the network on would follow, and its record would say that this kernel allows no other."""
    program = tmp_path / "unshare"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CommandError, match=says):
        no_network_prefix()
    program.write_text("#!/bin/sh\nexit 1\n")
    assert no_network_prefix() == []
