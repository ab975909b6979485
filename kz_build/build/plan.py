"""plan: trees and a target -> build steps. This module runs and writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.build import native_sources
from kz_build.build.steps import (
    ASSEMBLE,
    CCACHE_LOG,
    MAPPED,
    Artifact,
    Ccache,
    Checkout,
    Command,
    Copy,
    Layout,
    Plan,
    Sccache,
    Step,
)
from kz_build.container.mount import Mount
from kz_build.core.errors import ConfigError
from kz_build.formats.soc import arch_of
from kz_build.pins.load import PLACEHOLDER
from kz_build.pins.pins import NATIVE, digest_of
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched
from kz_build.sources.replaced import no_file


@dataclass(frozen=True)
class _Context:
    line: str
    name: str
    target: Mapping[str, Any]
    sources: tuple[Fetched, ...]
    layout: Layout
    values: Mapping[str, str]
    ccache: Ccache | Sccache | None
    places: Mapping[str, str]

    @property
    def native(self) -> Path | None:
        """Return where a build finds kz's own programs, None if the target has none."""
        if all(cmake["source"].split("/")[0] != NATIVE for cmake in self.target["cmake"].values()):
            return None
        return self.tree / NATIVE if self.layout.mapped else native_sources.FOLDER

    @property
    def tree(self) -> Path:
        return self.layout.tree

    @property
    def build(self) -> Path:
        return self.layout.build

    def folder(self, source: Fetched) -> Path:
        """Return where the programs of a build find a source."""
        if source.trees or self.layout.mapped or not source.folder:
            return self.tree / self.places[source.name]
        return source.folder

    def file(self, source: Fetched) -> str:
        """Return where they find a source's archive or wheel."""
        if source.file and self.layout.mapped:
            return f"{MAPPED}/files/{source.name}/{source.file.name}"
        return str(source.file or "")

    def fill(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda m: self.values[m[1]] if m[1] in self.values else m[0], text)


def plan(
    project: Project,
    line: str,
    name: str,
    sources: tuple[Fetched, ...],
    *,
    soc: str,
    jobs: int,
    layout: Layout | None = None,
    ccache: Ccache | Sccache | None = None,
    at: Path | None = None,
) -> Plan:
    """Return the steps that build a target from fetched and patched sources, at the paths of an engine's layout (None: this
    machine's).

    `ccache` or sccache makes them faster and changes no byte. `at` is a folder whose out/, dist/ and cache replace the project's.
    """
    target = project.pins.target(name, line)
    if not target["outputs"]:
        raise ConfigError(
            f"target {name} has no outputs: there is nothing to build",
            hint="name some in pins.yaml, by kz's docs/reference/pins.md",
        )
    soc = soc or target["soc"]
    place = project._replace(root=at or project.root)
    tree, build = place.out("tree", line, name), place.out("build", line, name)
    layout = layout or Layout(tree, build, at / "cache" if at else project.store, sys.executable)
    if not layout.image:
        _refuse_spaces(project, target, name)
    context = _context(project, line, name, target, sources, soc, jobs, ccache, layout)
    artifacts = tuple(_artifacts(target, context, soc))
    steps: list[Step] = [*_checkouts(context)]
    for project_name, cmake in target["cmake"].items():
        steps += _cmake(context, project_name, cmake)
    steps += _staging(context, target, artifacts, context.build / "stage")
    inputs = [
        __version__,
        name,
        {k: v for k, v in target.items() if k not in ("audit", "container", "package", "device")},
        soc,
        [s.key() for s in sources],
        native_sources.digest() if context.native else None,
        layout.image or (sys.version_info[:2] if "{python}" in str(target) else None),
        *([context.places] if any(name != place for name, place in context.places.items()) else []),
    ]
    return Plan(
        line,
        name,
        digest_of(inputs),
        tree,
        build,
        build / "stage",
        place.dist_folder(line, name),
        tuple(steps),
        artifacts,
        layout,
        tuple(_mounts(context, project)) if layout.mapped else (),
        tuple(target["needs"]),
    )


def _refuse_spaces(project: Project, target: Mapping[str, Any], name: str) -> None:
    for folder, move in ((project.root, "move the project"), (project.store, "move the store: KZ_CACHE=/other/folder")):
        if not target["spaces"] and " " in str(folder):
            raise ConfigError(
                f"{folder} has a space in it, and upstream's build of {name} fails with one, after minutes",
                hint=move,
            )


def _context(
    project: Project,
    line: str,
    name: str,
    target: Mapping[str, Any],
    sources: tuple[Fetched, ...],
    soc: str,
    jobs: int,
    ccache: Ccache | Sccache | None,
    layout: Layout,
) -> _Context:
    build = layout.build
    arch = arch_of(soc) if soc else ""
    values = {
        "jobs": str(jobs),
        "arch": arch,
        "ARCH": arch.upper(),
        "python": layout.python,
        "project": str(project.root),
        "cache": str(layout.cache),
    }
    places = {source.name: project.pins.place(source.name, target["sources"]) for source in sources}
    context = _Context(line, name, target, sources, layout, values, ccache, places)
    for source in sources:
        values[source.name] = str(context.folder(source))
        values[f"{source.name}.file"] = context.file(source)
        if not source.file and f"{{{source.name}.file}}" in str(target):
            raise no_file(name, source.name)
    if context.native:
        values[NATIVE] = str(context.native)
    for project_name in target["cmake"]:
        values[f"build.{project_name}"] = str(build / project_name)
        values[f"install.{project_name}"] = str(build / f"{project_name}-install")
    return context


def _mounts(context: _Context, project: Project) -> Iterator[Mount]:
    """Yield sources unpacked on this machine, and archives that the target uses as they are."""
    for source in context.sources:
        if source.folder and not source.trees:
            only = project.pins.source(source.name).list("only")
            known = source.identity if source.identity.startswith("sha256 ") else ""
            yield Mount(source.folder, context.folder(source), only, f"{known} {source.folder.name}" if known else "")
        if source.file and f"{{{source.name}.file}}" in str(context.target):
            yield Mount(source.file, Path(context.file(source)).parent, (), source.identity)
    if context.native:
        yield Mount(native_sources.FOLDER, context.native, (), f"sha256 {native_sources.digest()} {NATIVE}")


def _checkouts(context: _Context) -> Iterator[Checkout]:
    for source in sorted(context.sources, key=lambda source: context.places[source.name]):  # what holds others first
        for at in source.trees:
            yield Checkout(at.repository, at.tree, at.exclude, context.folder(source) / at.path)


def _cmake(context: _Context, name: str, cmake: Mapping[str, Any]) -> Iterator[Step]:
    source, _, below = cmake["source"].partition("/")
    folder = Path(context.values[source]) / below
    build = context.build / name
    env = tuple(sorted(environment(context).items()))
    tool = [context.fill(word) for word in context.target["tools"]["cmake"]]
    for to, path in cmake["lay"].items():
        yield Copy(Path(context.fill(path)), build / to)
    preset = ["--preset", cmake["preset"]] if cmake["preset"] else []
    own = {key: context.fill(value) for key, value in cmake["defines"].items()}
    flags = {key: f"{maps} {own[key]}" if own.get(key) else maps for key, maps in _flags(context).items()}
    defines = {
        "CMAKE_MAKE_PROGRAM": context.fill(context.target["tools"]["ninja"][0]),
        "CMAKE_INSTALL_PREFIX": str(build) + "-install",
        **own,
        **flags,
    }
    if isinstance(context.ccache, Ccache):  # CMake has launchers only for other languages than assembler
        defines.setdefault("CMAKE_ASM_COMPILE_OBJECT", f"{context.ccache.program} {ASSEMBLE}")
    yield Command(
        f"{name}-configure",
        (
            *tool,
            "-S",
            str(folder),
            "-B",
            str(build),
            "-G",
            "Ninja",
            *preset,
            *(f"-D{key}={value}" for key, value in sorted(defines.items())),
        ),
        folder,
        env,
    )
    targets = ["--target", *cmake["build"]] if cmake["build"] else []
    yield Command(
        f"{name}-build", (*tool, "--build", str(build), "--parallel", context.values["jobs"], *targets), folder, env
    )
    if cmake["install"]:
        yield Command(f"{name}-install", (*tool, "--install", str(build)), folder, env)


def _flags(context: _Context) -> dict[str, str]:
    """Return prefix maps for all three languages: without them each object contains its build folder."""
    folders = {str(context.tree): MAPPED, str(context.build): f"{MAPPED}/out"}
    folders |= {str(context.folder(s)): f"{MAPPED}/{s.name}" for s in context.sources if s.folder and not s.trees}
    if context.native:
        folders[str(context.native)] = f"{MAPPED}/{NATIVE}"
    folders = {folder: to for folder, to in folders.items() if folder != to}
    maps = " ".join(f'"-ffile-prefix-map={folder}={to}"' for folder, to in folders.items())
    return {f"CMAKE_{language}_FLAGS": maps for language in ("C", "CXX", "ASM")}


def environment(context: _Context) -> dict[str, str]:
    """Return the whole environment of a build: nothing comes from the caller's."""
    tools = {str(Path(context.fill(argv[0])).parent) for argv in context.target["tools"].values()}
    # An upstream that looks for ccache itself, as ExecuTorch 1.4 does, finds sccache by that name.
    launchers = [str(Path(context.ccache.program).parent)] if isinstance(context.ccache, Sccache) else []
    env = {
        "PATH": ":".join([*launchers, *sorted(tools), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(context.build / "home"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "1",
        **_cache_variables(context),
        # Without a root of its own a tree lies in the project's: upstream's `git describe` asked that one.
        "GIT_CEILING_DIRECTORIES": f"{context.tree.parent}:{context.build.parent}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "NINJA_STATUS": "[%f/%t] ",
    }
    if python := context.target["python"]:
        env["PYTHONPATH"] = ":".join(context.fill(path) for path in python)
    return env | {key: context.fill(value) for key, value in context.target["environment"].items()}


def _cache_variables(context: _Context) -> dict[str, str]:
    """Return the compile cache's variables. CMake reads the launcher from them, for nested projects too; upstream's search finds no other."""
    ccache = context.ccache
    if ccache is None:
        return {"CCACHE_DISABLE": "1"}
    if isinstance(ccache, Sccache):
        return {"CCACHE_DISABLE": "1", **ccache.variables()}
    return {
        "CCACHE_DIR": str(ccache.folder),
        "CCACHE_CONFIGPATH": "/dev/null",  # nothing of the machine's or the user's settings
        # By the headers that the compiler reports: no second preprocessing, which clang also refuses for assembler
        # (-mmark-bti-property, as in XNNPACK's).
        "CCACHE_DEPEND": "1",
        "CCACHE_STATSLOG": str(context.layout.build / CCACHE_LOG),
        "CMAKE_C_COMPILER_LAUNCHER": ccache.program,
        "CMAKE_CXX_COMPILER_LAUNCHER": ccache.program,
        # A compiler by its bytes; what it starts and reads (as, cc1, specs) by the image and the pinned sources they are part of.
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_NAMESPACE": digest_of([context.layout.image, *(s.identity for s in context.sources if not s.trees)]),
    }


def _artifacts(target: Mapping[str, Any], context: _Context, soc: str) -> Iterator[Artifact]:
    libraries = f"jniLibs/{target['abi']}" if target["platform"] == "android" else "lib"
    for name, output in target["outputs"].items():
        folder = "bin" if output["profile"] == "program" else libraries
        built = Path(context.fill(output["path"]))
        yield Artifact(output["install_as"] or name, folder, output["profile"], output["symbols"], built)
    for name, prebuilt in target["prebuilt"].items():
        if soc or not prebuilt["soc"]:
            yield Artifact(context.fill(name), libraries, prebuilt["profile"], False)


def _staging(
    context: _Context, target: Mapping[str, Any], artifacts: tuple[Artifact, ...], stage: Path
) -> Iterator[Step]:
    objcopy = [context.fill(word) for word in target["tools"]["objcopy"]]
    env = tuple(sorted(environment(context).items()))
    compiled = [a for a in artifacts if a.built]
    for (_, output), artifact in zip(target["outputs"].items(), compiled, strict=True):
        built, to = context.fill(output["path"]), stage / artifact.folder / artifact.name
        if artifact.symbols:
            debug = stage / "symbols" / f"{artifact.name}.debug"
            yield Command(
                f"symbols-{artifact.name}", (*objcopy, "--only-keep-debug", built, str(debug)), context.build, env
            )
            yield Command(f"strip-{artifact.name}", (*objcopy, "--strip-all", built, str(to)), context.build, env)
        else:
            yield Copy(Path(built), to)
    prebuilt = {context.fill(name): entry for name, entry in target["prebuilt"].items()}
    for artifact in artifacts:
        if not artifact.built:
            yield Copy(Path(context.fill(prebuilt[artifact.name]["path"])), stage / artifact.folder / artifact.name)
