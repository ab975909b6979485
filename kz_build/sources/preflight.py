"""All that would stop sources from being fetched on this machine, found before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from kz_build.core import host
from kz_build.core.errors import LockError, Missing
from kz_build.core.hash_cache import cached_sha256
from kz_build.pins.load import LOCAL
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones, store
from kz_build.sources.accept import not_accepted
from kz_build.sources.answers import Answers
from kz_build.sources.download import expected_digest, local_file
from kz_build.sources.installed_sdk import installed
from kz_build.sources.replaced import check, index_address
from kz_build.sources.request import Request, file_address, file_entry, wanted_commits

PROBE_SECONDS = 8.0
MB = 10**6


def missing_sources(project: Project, request: Request, answers: Answers | None = None) -> tuple[Missing, ...]:
    """Return all that would stop the named sources from being fetched: what the lock does not know, installed SDKs of other
    versions, licences that the user has not accepted, too small a disk, servers that do not answer."""
    check(project, request)
    sources = [project.pins.source(name) for name in request.names]
    unknown = {source.name: facts for source in sources if (facts := _unknown(project, request, source))}
    return (
        *_unlocked(project, request, unknown),
        *(lack for source in sources for lack in _other_version(project, request, source)),
        *(lack for source in sources for lack in _other_digest(project, request, source)),
        *not_accepted(project, request),
        *_disk(project, request, sources),
        *_silent(project, request, [s for s in sources if s.kind != "git" or s.name not in unknown], answers),
    )


def _unlocked(project: Project, request: Request, unknown: dict[str, list[str]]) -> Iterator[Missing]:
    """Yield what pins.lock does not know of these sources, as one thing: one command asks for all of it."""
    if unknown:
        version = project.pins.line(request.line)
        facts = [f"the {' and the '.join(of)} of {name} {version[name]}" for name, of in unknown.items()]
        trust = [f"--trust {name}" for name in unknown if project.pins.source(name).kind != "git"]
        yield Missing(
            f"{', '.join(facts)} in pins.lock",
            f"line {request.line} was locked where nothing could be asked for it",
            "\n".join(
                [
                    " ".join(["kz lock --write --line", request.line, *trust]),
                    *(_local(project.pins.source(name), "file: PATH") for name in unknown),
                ]
            ),
            LockError.exit_code,
        )


def _unknown(project: Project, request: Request, source: Source) -> list[str]:
    """Return the facts that a fetch requires and the lock lacks."""
    if source.kind == "git":
        return (
            []
            if _is_local(project, request, source) or project.locked(request.line, source.name)["commit"]
            else ["commit"]
        )
    if source.kind not in ("wheel", "archive") or installed(project, request.line, source):
        return []
    if (entry := file_entry(project, request.line, source)) is None:
        return []
    facts = [] if entry.get("sha256") else ["digest"]
    return facts + (["licence's digest"] if source.options.get("licence") and not entry.get("licence") else [])


def _other_version(project: Project, request: Request, source: Source) -> Iterator[Missing]:
    sdk = installed(project, request.line, source)
    if sdk and sdk.problem and source.name not in (request.allow_unpinned or ()):
        ways = [f"{sdk.remove}, so that kz downloads it"]
        if request.allow_unpinned is not None:
            ways.append(f"--allow-unpinned {source.name}, to take this one")
        yield Missing(
            f"{source.name} {project.pins.line(request.line)[source.name]}",
            f"{sdk.named_by}={sdk.folder} {sdk.problem}",
            "\n".join(ways),
            LockError.exit_code,
        )


def _other_digest(project: Project, request: Request, source: Source) -> Iterator[Missing]:
    """Yield a file of this machine that is another one than the lock's, or than its own digest says."""
    own = project.pins.replacement(source.name)
    if not own or source.kind not in ("wheel", "archive"):
        return
    expected, path = expected_digest(project, request.line, source), local_file(project, request.line, source)
    if path and expected and path.is_file() and (digest := cached_sha256(project.store, path)) != expected:
        place = f"index: {own.index}" if own.index else f"file: {own.file or path}"
        yield Missing(
            f"the pinned file of {source.name} {project.pins.line(request.line)[source.name]}",
            f"{path} has sha256 {digest}, {LOCAL if own.sha256 else 'pins.lock'} says {expected}",
            f"the right file there\n{LOCAL}: sources: {{{source.name}: {{{place}, sha256: {digest}}}}}, if you mean this one",
            LockError.exit_code,
        )


def _disk(project: Project, request: Request, sources: Sequence[Source]) -> Iterator[Missing]:
    """Yield the disk of the store if it cannot hold the archives to come: each file, and as much again where all of it is
    unpacked. Sizes that the lock does not know are left out."""
    need = 0
    for source in sources:
        if _is_to_come(project, request, source):
            entry = file_entry(project, request.line, source) or {}
            need += int(entry.get("size") or 0) * (1 if source.options.get("only") else 2)
    disk = host.disk(project.store)
    if disk.free < need:
        yield Missing(
            f"{need / MB:,.0f} MB on {disk.mount}",
            f"archives to download and unpack; {disk.free / MB:,.0f} MB are free",
            "kz store gc\nexport KZ_CACHE=/folder/on/another/disk",
        )


def _is_to_come(project: Project, request: Request, source: Source) -> bool:
    """Return whether a fetch downloads the file of a source."""
    own = project.pins.replacement(source.name)
    if (
        source.kind not in ("wheel", "archive")
        or own
        and (own.git or own.folder)
        or installed(project, request.line, source)
    ):
        return False
    entry = file_entry(project, request.line, source)
    return not (entry and entry.get("sha256") and store.stored_file(project.store, entry["sha256"]).exists())


class _Need(NamedTuple):
    """An address that a fetch asks: what for, what could stand in for it, and the line for pins.local.yaml with NAME in it."""

    what: str
    url: str
    remedy: str
    local: str
    name: str
    git: bool = False


def _silent(
    project: Project, request: Request, sources: Sequence[Source], answers: Answers | None
) -> Iterator[Missing]:
    """Yield the servers that do not answer, each with all that it would be asked for."""
    answers = answers or Answers(PROBE_SECONDS)
    needs = [need for source in sources for need in _needs(project, request, source, answers)]
    for need in needs:
        answers.ask(need.url, git=need.git)
    silent: dict[tuple[str, str, str], list[_Need]] = {}
    for need in needs:
        if error := answers.error(need.url):
            silent.setdefault((_host(need.url), error, need.remedy), []).append(need)
    for (server, error, remedy), of in silent.items():
        names: dict[str, list[str]] = {}
        for need in of:
            names.setdefault(need.local, []).append(need.name)
        lines = [local.replace("NAME", one[0] if len(one) == 1 else "NAME") for local, one in names.items()]
        what = ", ".join(dict.fromkeys(need.what for need in of))
        trust = "export REQUESTS_CA_BUNDLE=/your/certificates.pem" if error == "CERTIFICATE_VERIFY_FAILED" else ""
        yield Missing(f"{server} ({error})", f"for {what}", "\n".join([*filter(None, [trust, remedy]), *lines]))


def _needs(project: Project, request: Request, source: Source, answers: Answers) -> Iterator[_Need]:
    own = project.pins.replacement(source.name)
    if source.kind == "git" or own and own.git:
        yield from _git_needs(project, request, source, answers)
    elif _is_to_come(project, request, source):
        what = f"{source.name} {project.pins.line(request.line)[source.name]}"
        if source.kind == "wheel" and not (own and own.file):
            url = f"{index_address(project, source)}/{_normalized(source.location)}/"
            local = _local(source, "index: ADDRESS")
            remedy = "" if source.options["index"] else "export PIP_INDEX_URL=MIRROR"
        else:
            url, local = file_address(project, request.line, source), _local(source, "file: PATH")
            options = source.options.get("installed")
            remedy = f"export {options['env'][0]}=/path/to/it" if options else ""
        if not project.local_path(url):
            yield _Need(what, url, remedy, local, source.name)


def _normalized(project: str) -> str:
    """Return the one name of a project that every index has: PyPI leads to it from others, a folder of files does not."""
    from packaging.utils import canonicalize_name  # costs 50 ms

    return canonicalize_name(project)


def _git_needs(project: Project, request: Request, source: Source, answers: Answers) -> Iterator[_Need]:
    for path, url, commit in wanted_commits(project, request, source):
        if not project.local_path(url) and not answers.has(
            clones.clone(project.store, path or source.name, url), commit
        ):
            what = f"{source.name}/{path}" if path else source.name
            remedy = f'git config --global url."MIRROR".insteadOf {_host(url)}'
            local = f"{LOCAL}: sources: {{{source.name}/NAME: {{folder: PATH}}}}"
            yield _Need(what, url, remedy, local if path else _local(source, ""), path or source.name, git=True)


def _is_local(project: Project, request: Request, source: Source) -> bool:
    """Return whether pins.local.yaml says where or which a source is, so that the lock need not know it."""
    return bool(project.pins.replacement(source.name)) or project.pins.changed(request.line, source.name)


def _local(source: Source, place: str) -> str:
    """Return the line of pins.local.yaml that takes a source from elsewhere."""
    return f"{LOCAL}: sources: {{{source.name}: {{{place if source.kind != 'git' else 'git: ADDRESS'}}}}}"


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/" if parts.scheme else url
