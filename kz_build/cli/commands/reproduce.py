"""kz reproduce: build twice in varied surroundings, and explain what differs."""

from __future__ import annotations

import argparse
import os
import sys

from kz_build.cli.common import jobs, open_project, relative, show, soc_option, sources_options, trust_option
from kz_build.core.errors import AuditError
from kz_build.core.files import write_atomic

EXAMPLE = "--target android-arm64-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    sources_options(parser)
    soc_option(parser)
    parser.add_argument(
        "--attest",
        action="store_true",
        help="sign that it reproduces, by the identity of this CI job: for kz attest --verify",
    )
    trust_option(parser)
    parser.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.build.reproduce import ReproduceTarget, reproduce
    from kz_build.build.text_reproduce import reproduced
    from kz_build.core.terminal import Live
    from kz_build.pipeline.target import TargetBuild, TargetRequest
    from kz_build.sources.prove import prove

    if arguments.attest:
        from kz_build.release.sigstore_bundle import require_identity

        require_identity()
    project = open_project(arguments)
    request = TargetRequest(
        arguments.line or "", arguments.target or "", "host", allow_unpinned=arguments.allow_unpinned
    )
    with Live() as live:
        build = TargetBuild(project, request, live.event, live.note)
        for stage in (build.require, build.fetch, build.apply):
            stage()
        prove(project, build.sources)
        jobs = arguments.jobs or os.cpu_count() or 1
        subject = ReproduceTarget(project, build.line, build.target, build.sources, arguments.soc, jobs)
        result = reproduce(subject, build.commands, live.event)
    show(arguments, {**vars(result), "same": result.same}, reproduced(result))
    if not result.same:
        count = len({d.file for d in result.differences}) or len(result.files)
        raise AuditError(
            f"{build.target} of {build.line} does not reproduce",
            hint=f"{count} files differ; both builds are in {relative(subject.folder)}",
        )
    if arguments.attest:
        from kz_build.release import attest, sigstore_bundle

        varied = [v.name for v in result.variations if not v.absent]
        signed = attest.reproduced(result.line, result.target, build.sources, result.files, varied)
        path = subject.folder / attest.REPRODUCED
        write_atomic(path, sigstore_bundle.sign(signed, arguments.trust_config))
        print(f"signed: {relative(path)}", file=sys.stderr)
