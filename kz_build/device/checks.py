"""Checks of a device and what was pushed to it (docs/device.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NamedTuple

from kz_build.checks.elf_rules import aligned, android_abi, is_for, lacking, machine_of
from kz_build.core.check import Check, failed, passed, skipped, unanswered
from kz_build.device.adb import Device
from kz_build.device.metrics import OBSERVER, PROBE, Sample, lines_of, sample
from kz_build.device.properties import DeviceInfo
from kz_build.device.push_set import PushSet, skel_archs
from kz_build.device.trial import PROGRAM, TrialPlan
from kz_build.formats.elf_types import HEXAGON, Elf
from kz_build.formats.library import qnn_version

LIBRARIES = ("/system/lib64", "/apex/com.android.runtime/lib64/bionic", "/odm/lib64", "/vendor/lib64")
"""Where Android's linker looks for the libraries of a shell's program (the default namespace of linkerconfig)."""
EMULATED_LIBRARIES = ("/usr/aarch64-linux-gnu/lib",)
_SHOWN = 70


@dataclass(frozen=True)
class RunResult:
    """One run of the runner in a process of its own. `problem` is '' for a good one."""

    sample: Sample | None
    text: str
    problem: str
    log: str
    pids: tuple[int, ...]


class ProbeOutput(NamedTuple):
    """The answers of kz_probe, its stdout, and stdout with stderr."""

    answers: list[dict[str, Any]]
    output: str
    log: str


@dataclass
class DeviceUnderTest:
    """A device with everything pushed, and its output so far."""

    device: Device
    info: DeviceInfo
    trial: TrialPlan
    files: PushSet
    folder: str
    elves: Mapping[str, Elf]
    damaged: tuple[str, ...] = ()
    logs: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    process: str = ""

    def probe(self, words: Sequence[str], seconds: int = 60) -> ProbeOutput:
        """Run kz_probe; the libraries beside it are found first."""
        where = quote(self.folder)
        command = " ".join(quote(word) for word in words)
        done = self.device.shell(
            f"cd {where} && LD_LIBRARY_PATH={where} ADSP_LIBRARY_PATH={where} ./{PROGRAM} {command}",
            timeout=seconds + 30,
        )
        output = done.stdout.decode("utf-8", "replace")
        log = output + done.stderr.decode("utf-8", "replace")
        self.logs.append(log)
        answers = lines_of(log, PROBE)
        self.pids.update(one["pid"] for one in answers if isinstance(one.get("pid"), int))
        return ProbeOutput(answers, output, log.strip())

    def run(self) -> RunResult:
        """Run the runner once."""
        trial = self.trial
        if trial.text:
            self.device.shell(f"rm -f {quote(f'{self.folder}/{trial.text}')}")
        answers, output, log = self.probe(["run", str(trial.seconds), *trial.argv], trial.seconds)
        written = (
            self.device.shell(f"cat {quote(f'{self.folder}/{trial.text}')}").stdout.decode("utf-8", "replace")
            if trial.text
            else "\n".join(line for line in output.splitlines() if not line.startswith((PROBE, OBSERVER)))
        )
        figures = sample(log)
        # Upstream's llama_main repeats the prompt, and has no option to omit it.
        text = written.strip().removeprefix(trial.full_prompt.strip()).strip()
        return RunResult(figures, text, _problem(answers, log, figures, trial), log, tuple(self.pids))


def _problem(answers: Sequence[Mapping[str, Any]], log: str, figures: Sample | None, trial: TrialPlan) -> str:
    """Return why a run failed, '' if it did not."""
    last = " | ".join(line for line in log.splitlines()[-4:] if line.strip() and not line.startswith(PROBE))[-300:]
    if not answers or "exit" not in answers[-1]:
        return f"{PROGRAM} did not come back: {last or 'no output'}"
    ended = answers[-1]
    if ended.get("stopped"):
        return f"stopped after {trial.seconds} s: {last}"
    if ended.get("signal"):
        return f"{trial.argv[0]} was ended by signal {ended['signal']}: {last}"
    if ended["exit"]:
        return f"{trial.argv[0]} ended with {ended['exit']}: {last}"
    if figures is None:
        return f"{trial.argv[0]} ended with 0 and printed no statistics: {last}"
    if figures.generated_tokens < 1:
        return "it generated no token"
    return ""


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
    paths = dut.device.shell(f"for f in {words}; do [ -e $f ] && echo $f; done; true").stdout.decode() if wanted else ""
    there = {path.rpartition("/")[2] for path in paths.split()}
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
    answers = [one for one in answers if "library" in one and ("ms" in one or "error" in one)]
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
    shown = " ".join(result.text.split())
    text = f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown
    if not text:
        return failed(f"{result.sample.generated_tokens} tokens, and no text")
    return passed(f"{result.sample.generated_tokens} tokens after {result.sample.prompt_tokens} of the prompt: {text}")


QUESTIONS: Mapping[str, Callable[[DeviceUnderTest], Check | None]] = {
    "abi": _abi, "page-size": _pages, "needed": _needed, "no-su": _no_su, "process": _process, "qnn-runtime": _qnn,
    "dlopen": _dlopen, "runner": _runner,
}  # fmt: skip


def read_elves(files: PushSet) -> tuple[dict[str, Elf], tuple[str, ...]]:
    """Read the ELF files to push. Returns their facts, and what is wrong with damaged ones."""
    from kz_build.core.errors import AuditError
    from kz_build.formats.elf import read_elf

    facts, damaged = {}, []
    for path, name in files.files:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF" and not name.endswith(".so"):
                continue
        try:
            facts[name] = read_elf(path, exports=False)
        except AuditError as error:
            damaged.append(str(error))
    return facts, tuple(damaged)
