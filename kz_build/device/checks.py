"""Questions to a device about what was pushed there: one answer with its evidence each (docs/device.md)."""

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
from kz_build.device.trial import PROGRAM, Trial
from kz_build.formats.elf_types import HEXAGON, Elf
from kz_build.formats.library import qnn_version

LIBRARIES = ("/system/lib64", "/apex/com.android.runtime/lib64/bionic", "/odm/lib64", "/vendor/lib64")
"""Where the linker of a shell's program looks on Android (the default namespace of linkerconfig)."""
EMULATED_LIBRARIES = ("/usr/aarch64-linux-gnu/lib",)
_SHOWN = 70


@dataclass(frozen=True)
class Ran:
    """One run of the runner in a process of its own. `why` says why it is none, '' for a good one."""

    sample: Sample | None
    text: str
    why: str
    said: str
    pids: tuple[int, ...]


class Told(NamedTuple):
    """What kz_probe answers, what was printed, and that with what was complained of."""

    answers: list[dict[str, Any]]
    output: str
    said: str


@dataclass
class Tried:
    """A device with everything pushed, and what it has said so far."""

    device: Device
    info: DeviceInfo
    trial: Trial
    files: PushSet
    folder: str
    elves: Mapping[str, Elf]
    damaged: tuple[str, ...] = ()
    said: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    process: str = ""

    def probe(self, words: Sequence[str], seconds: int = 60) -> Told:
        """What kz_probe and what it runs say; the libraries beside it are found first."""
        where = quote(self.folder)
        command = " ".join(quote(word) for word in words)
        done = self.device.shell(
            f"cd {where} && LD_LIBRARY_PATH={where} ADSP_LIBRARY_PATH={where} ./{PROGRAM} {command}",
            timeout=seconds + 30,
        )
        output = done.stdout.decode("utf-8", "replace")
        said = output + done.stderr.decode("utf-8", "replace")
        self.said.append(said)
        answers = lines_of(said, PROBE)
        self.pids.update(one["pid"] for one in answers if isinstance(one.get("pid"), int))
        return Told(answers, output, said.strip())

    def run(self) -> Ran:
        """Run the runner once."""
        trial = self.trial
        if trial.text:
            self.device.shell(f"rm -f {quote(f'{self.folder}/{trial.text}')}")
        answers, output, said = self.probe(["run", str(trial.seconds), *trial.argv], trial.seconds)
        written = (
            self.device.shell(f"cat {quote(f'{self.folder}/{trial.text}')}").stdout.decode("utf-8", "replace")
            if trial.text
            else "\n".join(line for line in output.splitlines() if not line.startswith((PROBE, OBSERVER)))
        )
        found = sample(said)
        # Upstream's llama_main says the prompt again, and has no switch against it.
        text = written.strip().removeprefix(trial.asked.strip()).strip()
        return Ran(found, text, _why_not(answers, said, found, trial), said, tuple(self.pids))


def _why_not(answers: Sequence[Mapping[str, Any]], said: str, found: Sample | None, trial: Trial) -> str:
    """Why a run is none."""
    last = " | ".join(line for line in said.splitlines()[-4:] if line.strip() and not line.startswith(PROBE))[-300:]
    if not answers or "exit" not in answers[-1]:
        return f"{PROGRAM} did not come back: {last or 'it said nothing'}"
    ended = answers[-1]
    if ended.get("stopped"):
        return f"stopped after {trial.seconds} s: {last}"
    if ended.get("signal"):
        return f"{trial.argv[0]} was ended by signal {ended['signal']}: {last}"
    if ended["exit"]:
        return f"{trial.argv[0]} ended with {ended['exit']}: {last}"
    if found is None:
        return f"{trial.argv[0]} ended well and printed no statistics: {last}"
    if found.generated_tokens < 1:
        return "it generated no token"
    return ""


def _abi(tried: Tried) -> Check:
    """The device's processor and Android against the files'."""
    wanted = android_abi(tried.trial.abi)
    if not tried.info.abi:
        return unanswered("the device does not say its ABI")
    if tried.info.abi != wanted:
        return failed(f"the device is {tried.info.abi}, {tried.trial.target} is built for {wanted}")
    if tried.damaged:
        return failed("; ".join(tried.damaged))
    machines = (machine_of(wanted), HEXAGON)
    others = [
        f"{name} ({elf.machine})" for name, elf in tried.elves.items() if not any(is_for(elf, m) for m in machines)
    ]
    if others:
        return failed(f"not for {wanted}: {', '.join(others)}")
    sdk = tried.info.sdk or 0
    if newer := [f"{name} ({elf.api})" for name, elf in tried.elves.items() if sdk and elf.api > sdk]:
        return failed(f"the device has API {sdk}, and these are built for newer: {', '.join(newer)}")
    api = max((elf.api for elf in tried.elves.values()), default=0)
    return passed(f"{wanted}, {len(tried.elves)} files" + (f", API {api} on {sdk}" if api else ""))


def _pages(tried: Tried) -> Check:
    """Every PT_LOAD is aligned to the device's pages."""
    page = tried.info.page_size
    if not page:
        return unanswered("the device does not say its page size")
    elves = {name: elf for name, elf in tried.elves.items() if elf.alignments and not is_for(elf, HEXAGON)}
    if small := [f"{name} ({min(elf.alignments):,})" for name, elf in elves.items() if not aligned(elf, page)]:
        return failed(f"the device has pages of {page:,} bytes, and these are aligned to less: {', '.join(small)}")
    return passed(
        f"{page:,}-byte pages, files aligned to {min(min(elf.alignments) for elf in elves.values()):,} or more"
    )


def _needed(tried: Tried) -> Check:
    """Every NEEDED is pushed or there."""
    wanted: dict[str, list[str]] = {}
    # What was opened before is found by its SONAME, whatever the file is called.
    own = tried.files.names | {tried.elves[name].soname for name in tried.trial.loads if name in tried.elves}
    for name, elf in tried.elves.items():
        for need in lacking(elf, own) if not is_for(elf, HEXAGON) else ():
            wanted.setdefault(need, []).append(name)
    folders = LIBRARIES + (EMULATED_LIBRARIES if tried.info.emulated else ())
    words = " ".join(quote(f"{folder}/{name}") for name in sorted(wanted) for folder in folders)
    said = (
        tried.device.shell(f"for f in {words}; do [ -e $f ] && echo $f; done; true").stdout.decode() if wanted else ""
    )
    there = {path.rpartition("/")[2] for path in said.split()}
    if lost := [f"{name} (of {', '.join(wanted[name])})" for name in sorted(set(wanted) - there)]:
        return failed(f"neither pushed nor on the device: {'; '.join(lost)}")
    count = sum(len(elf.needed) for elf in tried.elves.values())
    return passed(f"{count} in all; of the system: {', '.join(sorted(there)) or 'none'}")


def _process(tried: Tried) -> Check:
    """What kind of process everything here ran in."""
    answers, _, said = tried.probe(["who"])
    if not answers or not {"context", "ancestors", "uid"} <= set(answers[0]):
        return unanswered(f"{PROGRAM} does not run there: {said[-300:] or 'it said nothing'}")
    context, line = str(answers[0]["context"]), " <- ".join([PROGRAM, *map(str, answers[0]["ancestors"])])
    tried.process = "app" if re.search(r"zygote", line) or "_app:" in context else "shell"
    kind = "an app's process" if tried.process == "app" else "a program under adbd's shell, not forked by Zygote"
    return passed(f"{kind}: {line}" + (f", {context}" if context else "") + f", user {answers[0]['uid']}")


def _no_su(tried: Tried) -> Check:
    """Nothing here needed root."""
    said = tried.device.shell("id -u; command -v su; true").stdout.decode("utf-8", "replace").split()
    if said[:1] == ["0"]:
        return failed("adbd runs as root: what works so proves nothing; adb unroot")
    if not said:
        return unanswered("the device does not say who a shell is")
    su = f"{said[1]} is there and was not used" if said[1:] else "the device has no su"
    return passed(f"user {said[0]}; {su}")


def _dlopen(tried: Tried) -> Check:
    """The libraries open, in one process, as Java opens them."""
    if not tried.trial.loads:
        return skipped("the recipe brings its own runner")
    answers, _, said = tried.probe(["load", *(f"./{name}" for name in tried.trial.loads)])
    answers = [one for one in answers if "library" in one and ("ms" in one or "error" in one)]
    if broken := [one for one in answers if "error" in one]:
        return failed("; ".join(f"{one['library']}: {one['error']}" for one in broken))
    opened = [f"{str(one['library'])[2:]} in {one['ms']:.1f} ms" for one in answers]
    if len(opened) < len(tried.trial.loads):
        lost = tried.trial.loads[len(opened)]
        return failed(f"the process ended while it opened {lost}: {said[-300:] or 'it said nothing'}")
    return passed(", ".join(opened))


def _qnn(tried: Tried) -> Check | None:
    """Qualcomm's libraries, stub and skel are of this arch and of one version."""
    if not tried.trial.qnn:
        return None
    own = {name: path for path, name in tried.files.files if name.startswith("libQnn")}
    versions: dict[str, list[str]] = {}
    for name, path in own.items():
        if version := qnn_version(path):
            versions.setdefault(version, []).append(name)
    arch = tried.info.arch.upper()
    if len(versions) > 1:
        said = "; ".join(f"{v}: {', '.join(n)}" for v, n in sorted(versions.items()))
        return failed(f"several versions: {said}")
    if not versions:
        return unanswered("none of Qualcomm's libraries says which version it is")
    if arch not in skel_archs(tuple(own)):
        return failed(f"stub and skel are for {', '.join(sorted(skel_archs(tuple(own))))}, the device is {arch}")
    return passed(f"{next(iter(versions))}, {len(own)} libraries, stub and skel of {arch}")


def _runner(tried: Tried) -> Check:
    """The line's runner loads the model and generates."""
    if not tried.trial.argv:
        return skipped(tried.trial.no_run, required=tried.trial.wanted)
    ran = tried.run()
    if ran.why or not ran.sample:
        return failed(ran.why)
    shown = " ".join(ran.text.split())
    text = f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown
    if not text:
        return failed(f"{ran.sample.generated_tokens} tokens, and no text")
    return passed(f"{ran.sample.generated_tokens} tokens after {ran.sample.prompt_tokens} of the prompt: {text}")


QUESTIONS: Mapping[str, Callable[[Tried], Check | None]] = {
    "abi": _abi,
    "page-size": _pages,
    "needed": _needed,
    "no-su": _no_su,
    "process": _process,
    "qnn-runtime": _qnn,
    "dlopen": _dlopen,
    "runner": _runner,
}


def elves(files: PushSet) -> tuple[dict[str, Elf], tuple[str, ...]]:
    """Facts of every ELF file that goes to the device, and what is wrong with those that are none or damaged."""
    from kz_build.core.errors import AuditError
    from kz_build.formats.elf import read_elf

    found, damaged = {}, []
    for path, name in files.files:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF" and not name.endswith(".so"):
                continue
        try:
            found[name] = read_elf(path, exports=False)
        except AuditError as error:
            damaged.append(str(error))
    return found, tuple(damaged)
