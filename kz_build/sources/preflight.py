"""What would stop sources from being fetched on this machine, found before anything is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from kz_build.core.env import index_url
from kz_build.core.errors import Missing
from kz_build.git import remote
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones, installed_sdk, store
from kz_build.sources.request import Request, archive_url, file_entry, wanted_commits

PROBE_SECONDS = 8.0


def missing_sources(project: Project, request: Request) -> tuple[Missing, ...]:
    """Return what would stop the named sources from being fetched: networks that do not answer, SDKs that are not installed."""
    probes: dict[str, tuple[list[str], Callable[[], str], str]] = {}
    for name in request.names:
        for what, url, probe, remedy in _needs_network(project, request, project.pins.source(name)):
            probes.setdefault(url, ([], probe, remedy))[0].append(what)
    if not probes:
        return ()
    with ThreadPoolExecutor(len(probes)) as pool:
        answers = dict(zip(probes, pool.map(lambda item: item[1](), probes.values()), strict=True))
    silent: dict[tuple[str, str, str], list[str]] = {}
    for url, (whats, _, remedy) in probes.items():
        if answers[url]:
            silent.setdefault((_host(url), answers[url], remedy), []).extend(whats)
    return tuple(
        Missing(f"{host} ({why})", f"for {', '.join(whats)}", remedy) for (host, why, remedy), whats in silent.items()
    )


_Need = tuple[str, str, Callable[[], str], str]
_MIRROR = 'a network that reaches it, or a mirror: git config --global url."<mirror>".insteadOf {url}'


def _needs_network(project: Project, request: Request, source: Source) -> list[_Need]:
    if source.kind == "git":
        return _git_needs(project, request, source)
    entry = file_entry(project, request.line, source)
    if source.kind == "folder" or (
        entry and entry.get("sha256") and store.stored_file(project.store, entry["sha256"]).exists()
    ):
        return []
    what = f"{source.name} {project.pins.line(request.line)[source.name]}"
    if source.kind == "wheel":
        url = f"{index_url(source.options['index'])}/"
        return [
            (
                what,
                url,
                lambda: _http_reachable(f"{url}{source.location}/"),
                "a network that reaches it, or a mirror: PIP_INDEX_URL for PyPI, `index` in pins.local.yaml for others",
            )
        ]
    if (options := source.options["installed"]) and installed_sdk.installed_folder(options["env"]):
        return []
    url = archive_url(project, request.line, source)
    remedy = "a network that reaches it"
    if options:
        remedy += f", or an installed one: export {options['env'][0]}=/path/to/it"
    return [(what, url, lambda: _http_reachable(url), remedy)]


def _http_reachable(url: str) -> str:
    from kz_build.core import http  # requests costs 160 ms

    return http.reachable(url, PROBE_SECONDS)


def _git_needs(project: Project, request: Request, source: Source) -> list[_Need]:
    needs: list[_Need] = []
    for path, url, commit in wanted_commits(project, request, source):
        if url and not clones.clone(project.store, path or source.name, url).has(commit):
            what = source.name if not path else f"{source.name}/{path}"
            needs.append((what, url, partial(remote.reachable, url, PROBE_SECONDS), _MIRROR.format(url=_host(url))))
    return needs


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/" if parts.scheme else url
