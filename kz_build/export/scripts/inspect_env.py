"""Run by an environment's own Python: imports packages and prints, as JSON, what there is and where.

Arguments: package names; `--open LIBRARY` for one that the dynamic linker must find.
"""

import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import shutil
import sys
import traceback

# The import of a namespace package proves nothing. These modules have its native parts.
DEEPER = {"executorch": ("executorch.exir", "executorch.runtime")}
ADAPTOR = "executorch.backends.qualcomm.python"


def modules(package: str) -> tuple[str, ...]:
    named = [name for name, owners in importlib.metadata.packages_distributions().items() if package in owners]
    own = package.replace("-", "_")
    # A package works if the module of its name does; torchtune's `recipes` beside it refuses to be imported.
    some = [own] if own in named else sorted(name for name in named if name.isidentifier() and not name.startswith("_"))
    return (*some, *DEEPER.get(package, ()))


def adaptor() -> str:
    try:
        spec = importlib.util.find_spec(f"{ADAPTOR}.PyQnnManagerAdaptor")
    except ImportError:
        return ""
    return spec.origin if spec and spec.origin else ""


def main() -> int:
    libraries = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--open"]
    packages = [word for word in sys.argv[1:] if word != "--open" and word not in libraries]
    owners = {
        o.lower().replace("_", "-").replace(".", "-"): o
        for os in importlib.metadata.packages_distributions().values()
        for o in os
    }
    wrong = {}
    for package in packages:
        for name in modules(owners.get(package, package)):
            try:
                importlib.import_module(name)
            except BaseException:
                wrong[name] = traceback.format_exc(limit=-1).strip()
    for library in libraries:
        try:
            ctypes.CDLL(library)
        except OSError as error:
            wrong[library] = str(error)
    versions = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    facts = {
        "python": platform.python_version(),
        "packages": versions,
        "flatc": shutil.which("flatc") or "",
        "adaptor": adaptor(),
    }
    print("\n" + json.dumps({**facts, "wrong": wrong}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
