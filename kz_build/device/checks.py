"""check: push what was built to a device, ask every question, and keep the report in out/device/<line>/<serial>/ (docs/reference/verbs/device.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote

from kz_build import __version__
from kz_build.checks import pte as contract
from kz_build.checks.elf_rules import aligned, android_abi, is_for, lacking, machine_of
from kz_build.core import files
from kz_build.core.check import Check, Status, ask, failed, passed, skipped, unanswered
from kz_build.core.errors import KzError, MissingError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.plain_json import plain
from kz_build.core.progress import Watch, quiet
from kz_build.core.stage_record import Output, StageRecord
from kz_build.device.adb import Device
from kz_build.device.device_under_test import DeviceUnderTest, read_elves
from kz_build.device.history import IN_APP
from kz_build.device.info import info
from kz_build.device.properties import known_soc
from kz_build.device.push import FOLDER, named, push
from kz_build.device.push_plan import Pushed
from kz_build.device.push_set import push_set, skel_archs
from kz_build.device.reply import judged
from kz_build.device.trial import PROGRAM, Report, TrialPlan
from kz_build.formats.elf_types import HEXAGON
from kz_build.formats.library import qnn_version, read_library
from kz_build.pins.load import executorch_of
from kz_build.pins.pins import digest_of
from kz_build.pins.project import RECORD, Project

LIBRARIES = ("/system/lib64", "/apex/com.android.runtime/lib64/bionic", "/odm/lib64", "/vendor/lib64")
"""Where Android's linker looks for the libraries of a shell's program (the default namespace of linkerconfig)."""
EMULATED_LIBRARIES = ("/usr/aarch64-linux-gnu/lib",)
LOG = "log.txt"
_SHOWN = 70
_THREADTIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d+\s+(\d{1,9})\s+\d+ . (\S*)")
_OTHERS = re.compile(r"^(DEBUG|lowmemorykiller|adsprpc|cdsprpc|.*fastrpc.*)", re.I)


def check(project: Project, device: Device, trial: TrialPlan, *, watch: Watch = quiet) -> Report:
    """Push a trial's files and run every check. Raises MissingError with all the files that are absent, DeviceError."""
    dut, report = checked(project, device, trial, watch)
    record(project, dut, report)
    return report


def checked(project: Project, device: Device, trial: TrialPlan, watch: Watch) -> tuple[DeviceUnderTest, Report]:
    """Do the same, and leave the record to the caller."""
    facts = info(device)
    wanted = push_set(facts.arch, trial.dist, trial.runtime, trial.inputs, qnn=trial.qnn)
    if wanted.missing:
        raise MissingError(wanted.missing)
    folder = f"{FOLDER}/{trial.line}/{trial.target}" + (f"/{trial.subject}" if trial.subject else "")
    pushed = push(project.store, device, named(wanted.files), folder, clean=True, watch=watch)
    dut = DeviceUnderTest(device, facts, trial, wanted, folder, *read_elves(wanted))
    since = clock(device)
    checks = ask(dut, QUESTIONS, device.serial) + _file_checks(dut)
    return dut, report_of(project, dut, pushed, (*checks, log_check(project, dut, since)), dut.process)


def clock(device: Device) -> str:
    """Return the device's time of day, as `logcat -T` takes it. Raises DeviceError."""
    return device.checked("date '+%m-%d %H:%M:%S.000'").decode("utf-8", "replace").strip()


def report_of(
    project: Project, dut: DeviceUnderTest, pushed: Pushed, checks: tuple[Check, ...], process: str
) -> Report:
    info, trial = dut.info, dut.trial
    return Report(
        serial=info.serial, emulated=info.emulated, device=info.model, soc=info.soc, arch=info.arch, line=trial.line,
        target=trial.target, subject=trial.subject, process=process, pushed=pushed, checks=checks,
        log=str((folder_of(project, dut) / LOG).relative_to(project.root)),
    )  # fmt: skip


def _abi(dut: DeviceUnderTest) -> Check:
    """Compare the device's processor and Android version with the files'."""
    wanted = android_abi(dut.trial.abi)
    if not dut.info.abi:
        return unanswered("the device does not report its ABI")
    if dut.info.abi != wanted:
        return failed(f"the device is {dut.info.abi}, {dut.trial.target} is built for {wanted}")
    if dut.damaged:
        return failed("; ".join(dut.damaged))
    machines = (machine_of(wanted), HEXAGON)
    others = [f"{name} ({elf.machine})" for name, elf in dut.elves.items() if not any(is_for(elf, m) for m in machines)]
    if others:
        return failed(f"not for {wanted}: {', '.join(others)}")
    sdk = dut.info.sdk or 0
    if newer := [f"{name} ({elf.api})" for name, elf in dut.elves.items() if sdk and elf.api > sdk]:
        return failed(f"the device has API {sdk}, and these are built for newer: {', '.join(newer)}")
    api = max((elf.api for elf in dut.elves.values()), default=0)
    return passed(f"{wanted}, {len(dut.elves)} files" + (f", API {api} on {sdk}" if api else ""))


def _pages(dut: DeviceUnderTest) -> Check:
    """Check that every PT_LOAD is aligned to the device's pages."""
    page = dut.info.page_size
    if not page:
        return unanswered("the device does not report its page size")
    elves = {name: elf for name, elf in dut.elves.items() if elf.alignments and not is_for(elf, HEXAGON)}
    if small := [f"{name} ({min(elf.alignments):,})" for name, elf in elves.items() if not aligned(elf, page)]:
        return failed(f"the device has pages of {page:,} bytes, and these are aligned to less: {', '.join(small)}")
    return passed(
        f"{page:,}-byte pages, files aligned to {min(min(elf.alignments) for elf in elves.values()):,} or more"
    )


def _needed(dut: DeviceUnderTest) -> Check:
    """Check that every NEEDED library was pushed or is on the device."""
    wanted: dict[str, list[str]] = {}
    # The linker finds an opened library by its SONAME, whatever its file name.
    own = dut.files.names | {dut.elves[name].soname for name in dut.trial.loads if name in dut.elves}
    for name, elf in dut.elves.items():
        for need in lacking(elf, own) if not is_for(elf, HEXAGON) else ():
            wanted.setdefault(need, []).append(name)
    folders = LIBRARIES + (EMULATED_LIBRARIES if dut.info.emulated else ())
    words = " ".join(quote(f"{folder}/{name}") for name in sorted(wanted) for folder in folders)
    paths = dut.device.shell(f'for f in {words}; do [ -e "$f" ] && echo "$f"; done; true').stdout if wanted else b""
    there = {path.rpartition("/")[2] for path in paths.decode("utf-8", "replace").splitlines()}
    if missing := [f"{name} (of {', '.join(wanted[name])})" for name in sorted(set(wanted) - there)]:
        return failed(f"neither pushed nor on the device: {'; '.join(missing)}")
    count = sum(len(elf.needed) for elf in dut.elves.values())
    return passed(f"{count} in all; from the system: {', '.join(sorted(there)) or 'none'}")


def _process(dut: DeviceUnderTest) -> Check:
    """Report the kind of process that everything here ran in."""
    answers, _, log = dut.probe(["who"])
    if not answers or not {"context", "ancestors", "uid"} <= set(answers[0]):
        return unanswered(f"{PROGRAM} does not run on it: {log[-300:] or 'no output'}")
    context, line = str(answers[0]["context"]), " <- ".join([PROGRAM, *map(str, answers[0]["ancestors"])])
    dut.process = "app" if re.search(r"zygote", line) or "_app:" in context else "shell"
    kind = "an app's process" if dut.process == "app" else "a program under adbd's shell, not forked by Zygote"
    return passed(f"{kind}: {line}" + (f", {context}" if context else "") + f", user {answers[0]['uid']}")


def _no_su(dut: DeviceUnderTest) -> Check:
    """Check that nothing needed root."""
    words = dut.device.shell("id -u; command -v su; true").stdout.decode("utf-8", "replace").split()
    if words[:1] == ["0"]:
        return failed("adbd runs as root, so this proves nothing: adb unroot")
    if not words:
        return unanswered("the device does not report the user of a shell")
    su = f"{words[1]} is there and was not used" if words[1:] else "the device has no su"
    return passed(f"user {words[0]}; {su}")


def _dlopen(dut: DeviceUnderTest) -> Check:
    """Open the libraries in one process, as Java does."""
    if not dut.trial.loads:
        return skipped("the recipe has its own runner")
    answers, _, log = dut.probe(["load", *(f"./{name}" for name in dut.trial.loads)])
    answers = [a for a in answers if "library" in a and (isinstance(a.get("ms"), int | float) or "error" in a)]
    if broken := [one for one in answers if "error" in one]:
        return failed("; ".join(f"{one['library']}: {one['error']}" for one in broken))
    opened = [f"{str(one['library'])[2:]} in {one['ms']:.1f} ms" for one in answers]
    if len(opened) < len(dut.trial.loads):
        missing = dut.trial.loads[len(opened)]
        return failed(f"the process ended while it opened {missing}: {log[-300:] or 'no output'}")
    return passed(", ".join(opened))


def _qnn(dut: DeviceUnderTest) -> Check | None:
    """Check that Qualcomm's libraries are of one version, and stub and skel of the device's arch."""
    if not dut.trial.qnn:
        return None
    own = {name: path for path, name in dut.files.files if name.startswith("libQnn")}
    versions: dict[str, list[str]] = {}
    for name, path in own.items():
        if version := qnn_version(path):
            versions.setdefault(version, []).append(name)
    arch = dut.info.arch.upper()
    if len(versions) > 1:
        shown = "; ".join(f"{v}: {', '.join(n)}" for v, n in sorted(versions.items()))
        return failed(f"several versions: {shown}")
    if not versions:
        return unanswered("none of Qualcomm's libraries gives its version")
    if arch not in skel_archs(tuple(own)):
        return failed(f"stub and skel are for {', '.join(sorted(skel_archs(tuple(own))))}, the device is {arch}")
    return passed(f"{next(iter(versions))}, {len(own)} libraries, stub and skel of {arch}")


def _runner(dut: DeviceUnderTest) -> Check:
    """Check that the line's runner loads the model and generates."""
    if not dut.trial.argv:
        return skipped(dut.trial.no_run, required=dut.trial.required)
    result = dut.run()
    if result.problem or not result.sample:
        return failed(result.problem)
    dut.reply = result.text
    shown = " ".join(result.text.split())
    text = f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown
    if not text:
        return failed(f"{result.sample.generated_tokens} tokens, and no text")
    return passed(f"{result.sample.generated_tokens} tokens after {result.sample.prompt_tokens} of the prompt: {text}")


def _reply(dut: DeviceUnderTest) -> Check | None:
    """Judge what the runner's model said."""
    return None if dut.reply is None else reply_check(dut.trial, dut.reply)


def reply_check(trial: TrialPlan, text: str) -> Check:
    """Judge a reply to the trial's prompt."""
    return judged(text, trial.expected, trial.full_prompt, trial.rehearsal, sensible=not trial.random)


QUESTIONS: Mapping[str, Callable[[DeviceUnderTest], Check | None]] = {
    "abi": _abi, "page-size": _pages, "needed": _needed, "no-su": _no_su, "process": _process, "qnn-runtime": _qnn,
    "dlopen": _dlopen, "runner": _runner, "reply": _reply,
}  # fmt: skip


def _file_checks(dut: DeviceUnderTest) -> tuple[Check, ...]:
    """Check the .pte against library and device (docs/reference/verbs/pte.md)."""
    trial = dut.trial
    if not trial.pte:
        return ()
    library = read_library(trial.folder, trial.pte, executorch_of(trial.folder))
    own = {name: path for path, name in dut.files.files}
    htp = own.get("libQnnHtp.so")
    archs = frozenset(arch.lower() for arch in skel_archs(tuple(own)))
    library = replace(library, qnn=qnn_version(htp) if htp else library.qnn, skels=archs or library.skels)
    checks = contract.check_contract(trial.pte, trial.contract, library, known_soc(dut.info.soc))
    return tuple(replace(one, subject=dut.device.serial, name=f"pte {one.name}") for one in checks)


def device_folder(project: Project, dut: DeviceUnderTest) -> Path:
    """Return where all of a device is."""
    return project.out("device", dut.trial.line, re.sub(r"[^\w.-]", "_", dut.device.serial))


def folder_of(project: Project, dut: DeviceUnderTest) -> Path:
    """Return where the reports of a device are, or those of its app."""
    folder = device_folder(project, dut)
    return folder / IN_APP if dut.process == "app" else folder


def log_check(project: Project, dut: DeviceUnderTest, since: str) -> Check:
    """Keep the programs' output and the device's log since `since`, and look for known problems in them."""
    from kz_build.diagnose.diagnose import diagnose

    path = folder_of(project, dut) / LOG

    def answer(status: Status, evidence: str) -> Check:
        return Check(dut.device.serial, "log", status, evidence)

    def keep(*lines: str) -> None:
        files.write_atomic(path, "\n".join([*dut.logs, *lines, ""]).encode())

    keep()  # also if logcat fails: the report names this file
    try:
        done = dut.device.shell(f"logcat -d -v threadtime -T {quote(since)}", timeout=60)
    except KzError as error:
        return answer(Status.ERROR, f"logcat: {error}")
    if done.code:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        return answer(Status.ERROR, f"logcat cannot be read: {stderr or f'exit {done.code}'}")
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if _ours(line, dut.pids)]
    keep(*lines)
    diagnosis = diagnose(str(path))
    if findings := diagnosis.causes or diagnosis.possible:
        shown = "; ".join(f"{one.title} [{one.id}]: {one.next}" for one in findings)
        return answer(Status.FAIL, shown)
    return answer(Status.PASS, f"no known problem in {len(lines):,} lines of logcat and the programs' output")


def _ours(line: str, pids: set[int]) -> bool:
    """Whether a line of logcat is from our processes, or from those that serve the DSP or log crashes."""
    match = _THREADTIME.match(line)
    return not match or int(match[1]) in pids or bool(_OTHERS.match(match[2]))


def record(project: Project, dut: DeviceUnderTest, report: Report) -> None:
    """Write the record of this report."""
    digests = {name: cached_sha256(project.store, source) for source, name in dut.files.files}
    facts = dut.info
    key = digest_of(
        [
            __version__,
            report.serial,
            digests,
            list(dut.trial.argv),
            [facts.model, facts.soc, facts.android, facts.sdk, facts.page_size],
        ]
    )
    outputs = {name: Output(sha256) for name, sha256 in digests.items()}
    StageRecord(folder_of(project, dut) / RECORD, key, {}, outputs, {"report": plain(report)}).save()
