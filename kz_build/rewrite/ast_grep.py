"""ast-grep: what a rule matches in a file's content. It sees the content and the rule, and no project."""

from __future__ import annotations

import json
import signal
import sys
from functools import lru_cache
from pathlib import Path

from kz_build.core import process
from kz_build.core.errors import ConfigError, StoppedError
from kz_build.core.host import not_installed
from kz_build.core.locks import scratch_folder
from kz_build.patch.rewrite import Mismatch
from kz_build.rewrite.rule import Edit, Rule

VERSION = "0.51.1"
"""Another one may match otherwise. Raise `CACHE_EPOCH` of stack/verdict_cache.py with it."""
SECONDS = 5.0
_WRONG_RULE = 8
_CONFIG = "ruleDirs: []\n"
"""A project of ast-grep without rules. Without one it looks for sgconfig.yml in all folders above."""
_LIMITED = 'ulimit -v 4194304 2>/dev/null; ulimit -f 131072; exec "$@" >matches'
"""At most 4 GB of memory, and 64 MB of matches."""


def search(rule: Rule, data: bytes) -> list[Edit] | Mismatch:
    """Find what a rule's syntax matches. Raises ConfigError for a wrong rule, MissingError without ast-grep."""
    program = _program()
    words = ("scan", "--config=sgconfig.yml", "--threads=1", "--json=stream", "--stdin")
    with scratch_folder() as folder:
        (folder / "sgconfig.yml").write_text(_CONFIG)
        argv = ["sh", "-c", _LIMITED, "sh", program, *words, f"--max-results={rule.enough}"]
        argv.append(f"--inline-rules={rule.syntax}")
        done = process.run(argv, stdin=data, cwd=folder, timeout=SECONDS)
        errors = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        if done.code == 124:
            raise StoppedError(f"ast-grep took longer than {SECONDS:g} s for {rule.where} in {rule.file}")
        if -done.code in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # others are its own end
            raise StoppedError(f"ast-grep was killed by signal {-done.code} for {rule.where} in {rule.file}")
        if done.code == _WRONG_RULE:
            raise ConfigError("\n".join([f"ast-grep does not accept {rule.where}:", *(f"  {line}" for line in errors)]))
        if done.code:
            return Mismatch(f"ast-grep cannot read it for {rule.where}: {errors[0] if errors else f'exit {done.code}'}")
        rows = [json.loads(line) for line in (folder / "matches").read_bytes().splitlines()]
    return [_edit(row) for row in rows]


def _edit(row: dict[str, object]) -> Edit:
    offsets, new = row.get("replacementOffsets"), row.get("replacement")
    if not isinstance(offsets, dict) or not isinstance(new, str):
        raise ConfigError("ast-grep found a match without a replacement")
    return Edit(int(offsets["start"]), int(offsets["end"]), new.encode())


@lru_cache(maxsize=1)
def _program() -> str:
    """Return the ast-grep of this Python's environment, else that on PATH. Raises MissingError for none, or another version."""
    beside = Path(sys.executable).with_name("ast-grep")
    program = str(beside) if beside.is_file() else process.find("ast-grep")
    why = "rules of a stack match syntax with it"
    if program:
        version = process.run([program, "--version"]).stdout.decode("utf-8", "replace").strip()
        if version == f"ast-grep {VERSION}":
            return program
        why += f"; {program} is {version[:40] or 'no ast-grep'}"
    raise not_installed(f"ast-grep {VERSION}", why, f"ast-grep-cli=={VERSION}")
