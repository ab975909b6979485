"""The libraries of a target as a CMake package, each with its digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kz_build.core.stage_record import Output

CONFIG = "kz-config.cmake"
"""Where find_package(kz) looks for it."""
_FUNCTIONS = r"""
function(_kz_check path sha256)
  set(file "${_kz_folder}/${path}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "kz: ${file} is not there")
  endif()
  file(SHA256 "${file}" actual)
  if(NOT actual STREQUAL sha256)
    message(FATAL_ERROR "kz: ${file} is not the file that was built and checked: its sha256 is ${actual}, not ${sha256}")
  endif()
  # A file that changes later is looked at before the next build.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endfunction()

function(_kz_library name path sha256)
  _kz_check("${path}" "${sha256}")
  if(NOT TARGET "kz::${name}")
    add_library("kz::${name}" SHARED IMPORTED)
    set_target_properties("kz::${name}" PROPERTIES IMPORTED_LOCATION "${_kz_folder}/${path}")
  endif()
endfunction()

"""


def config(line: str, target: str, abi: str, outputs: Mapping[str, Output]) -> bytes:
    """Return the file that find_package and include take: an imported target kz::NAME for each libNAME.so, and a comparison of
    each library with its sha256 whenever CMake configures."""
    rows = [
        f"# kz: line {line}, target {target}",
        "if(DEFINED ANDROID_ABI AND NOT ANDROID_ABI STREQUAL " + json.dumps(abi) + ")",
        f'  message(FATAL_ERROR "kz: the libraries of {target} are for {abi}, not ${{ANDROID_ABI}}")',
        "endif()",
        'set(_kz_folder "${CMAKE_CURRENT_LIST_DIR}")',
    ]
    libraries = []
    for path, output in sorted(outputs.items()):
        name = path.rpartition("/")[2].removeprefix("lib").removesuffix(".so")
        if output.profile in ("ours", "vendor"):
            libraries.append(f"_kz_library({json.dumps(name)} {json.dumps(path)} {output.sha256})")
        elif output.profile == "hexagon":
            libraries.append(f"_kz_check({json.dumps(path)} {output.sha256})")
    return ("\n".join(rows) + _FUNCTIONS + "\n".join([*libraries, "unset(_kz_folder)", ""])).encode()
