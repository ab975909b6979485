"""Which operators and backends of a .pte a library registers, by its strings, and the libraries beside it."""

from __future__ import annotations

import mmap
from pathlib import Path

from kz_build.core.errors import ConfigError
from kz_build.core.paths import files_below
from kz_build.formats.elf import registered_strings
from kz_build.formats.library_types import Library, htp_arch
from kz_build.formats.pte_types import Pte
from kz_build.formats.qnn_blob import qnn_versions

# Names of types that the QNN runner's classes leave in a library: one per KV width up to v1.3, one for all from v1.4.
_RUNNER_16, _RUNNER_ANY = "N7example6RunnerItEE", "N7example6RunnerE"
_ASKS_WIDTH = "get_kv_io_bit_width"
# What each engine of upstream's tokenizers leaves in a library: the name of its class, and a message where types have no names.
_ENGINES = {
    "N10tokenizers8Re2RegexE": "RE2",
    "RE2 doesn't support lookahead patterns. Link with `regex_lookahead` to enable support.": "RE2",
    "N10tokenizers10Pcre2RegexE": "PCRE2",
    "PCRE2 compilation failed at offset %ld: %s": "PCRE2",
}
QNN_HTP = "libQnnHtp.so"


def read_library(path: Path, pte: Pte, executorch: str = "") -> Library:
    """Look in a library, or in all of a folder, for what the file needs. `executorch` is the version it was built from.

    Raises ConfigError for a path without one, AuditError for an incomplete ELF file.
    """
    files = [path] if path.is_file() else _files(path)
    if not files:
        raise ConfigError(f"{path} is not a library or a folder that has one", hint="kz build makes dist/LINE/TARGET")
    graph = frozenset(name for d in pte.delegates for name in d.operators)
    backends = frozenset(d.backend for d in pte.delegates)
    wanted = sorted({*pte.operators, *backends, *graph, _RUNNER_16, _RUNNER_ANY, _ASKS_WIDTH, *_ENGINES})
    matches: set[str] = set()
    for file in files:
        if not file.name.startswith("libQnn"):  # Qualcomm's own: they register nothing with ExecuTorch
            matches |= registered_strings(file, wanted)
    return Library(
        path.name,
        tuple(file.name for file in files),
        backends & matches,
        pte.operators & matches,
        graph & matches,
        _kv_width(matches),
        executorch,
        next((qnn_version(file) for file in files if file.name == QNN_HTP), ""),
        frozenset(arch.lower() for file in files if (arch := htp_arch(file.name, "Skel"))),
        frozenset(_ENGINES[name] for name in matches & _ENGINES.keys()),
    )


def _files(folder: Path) -> list[Path]:
    """Return the libraries of a folder, and upstream's program that runs a QNN model."""
    candidates = (*files_below(folder, "*.so"), *files_below(folder, "qnn_llama_runner"))
    return sorted(p for p in candidates if "symbols" not in p.relative_to(folder).parts)


def _kv_width(matches: set[str]) -> str:
    if _RUNNER_ANY in matches or _ASKS_WIDTH in matches:
        return "by file"
    return "16" if _RUNNER_16 in matches else ""


def qnn_version(path: Path) -> str:
    """Return the version of QNN in one of Qualcomm's libraries, '' if there is none."""
    if not path.stat().st_size:
        return ""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return next(qnn_versions(data), "")
