"""kz diagnose against grep on a large log: seconds of processor time, for both use every core or one as they like."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import KZ, table

from kz_build.diagnose.diagnose import shipped

TAGS = [
    "ActivityManager",
    "SurfaceFlinger",
    "chatty",
    "WifiHAL",
    "AudioTrack",
    "QnnDsp",
    "ETLogging",
    "adsprpc",
    "nativeloader",
    "art",
    "libc",
    "JobScheduler",
]
LOGCAT = (
    "Start proc {n}:com.{w}.{w}/u0a{s} for service {{com.{w}.{w}/com.{w}.{w}.Service}}",
    "<I> graph finalized, error 0, {s} of {n} tensors",
    "Davey! duration={n}ms; Flags=0, FrameTimelineVsyncId={n}, IntendedVsync={n}{n}, Vsync={n}{n}",
    "Background concurrent copying GC freed {n}(2MB) AllocSpace objects, 49% free, 4MB/9MB, paused 71us total 101.{s}ms",
    "adsprpc/src/fastrpc_apps_user.c:{n}: remote_handle64_open: opened handle {h} for file:///libQnnHtpV75Skel.so on domain 3",
    'Access denied finding property "ro.vendor.{w}{s}"',
    "failed to connect to '127.0.0.1:{n}': Connection refused",
    'acquire lock={n} flags=0x1 tag="*job*/com.{w}" uid=10{s} pid={n}',
)
BUILD = (
    "[{n}/90000] /opt/ndk/bin/clang++ --target=aarch64-none-linux-android26 -DANDROID -ffunction-sections -O2 -Wall -Werror -std=c++17"
    " -I/src/executorch/third-party/flatbuffers/include -c runtime/{w}/{w}_{n}.cpp -o x/{h}.o",
    "[ {s}%] Building CXX object kernels/portable/CMakeFiles/portable_kernels.dir/cpu/op_{w}_{w}.cpp.o",
    "> Task :app:mergeDebug{w} UP-TO-DATE",
    "INFO:executorch.backends.qualcomm.qnn_preprocess:Visiting: aten_{w}_default_{n}, aten.{w}.default",
    "Requirement already satisfied: {w}-{w}=={s}.{s} in /opt/venv/lib/python3.11/site-packages (from torch)",
    "{h} {h} {w} {w} {w} {w}: {w}, {w} and {w} of {n}",
)
WORDS = [
    f"{a}{b}{c}"
    for a in ["con", "re", "in", "tra", "de", "pro"]
    for b in ["ver", "fig", "sta", "lo", "put", "ser"]
    for c in ["t", "ion", "er", "ed", "ing", "able"]
]


def write(path: Path, megabytes: int) -> None:
    """Write a log of device, build and export lines; one in five has words that no other line has together."""
    chance, left = random.Random(7), megabytes << 20

    def filled() -> tuple[bool, str]:
        device = chance.random() < 0.6
        parts = chance.choice(LOGCAT if device else BUILD).split("{w}")
        return device, "".join(part + chance.choice(WORDS) for part in parts[:-1]) + parts[-1]

    known = [filled() for _ in range(5000)]

    def line() -> bytes:
        device, said = chance.choice(known) if chance.random() < 0.8 else filled()
        n, s = chance.randrange(100_000), chance.randrange(256)
        said = said.format(n=n, s=s, h=f"0x{chance.getrandbits(48):x}")
        head = f"11-21 08:{s % 60:02}:{n % 60:02}.{s:03} {n:5} {n:5} {chance.choice('VDDDIIIIWWE')} {chance.choice(TAGS):8}: "
        return f"{head * device}{said}\n".encode()

    with path.open("wb") as file:
        while left > 0:
            left -= file.write(b"".join(line() for _ in range(10_000))[:left])


def processor(*words: str) -> float:
    """Seconds of processor time of a command and its children; what it found is not looked at."""
    with tempfile.TemporaryFile() as out:  # with /dev/null grep would stop at its first line
        child = subprocess.Popen(words, stdout=out, env=os.environ | {"LC_ALL": "C"})
        _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """SIZE in MB (1000), ROUNDS (3)."""
    megabytes, rounds = (int(word) for word in (*sys.argv[1:3], *("1000", "3")[len(sys.argv[1:3]) :]))
    with tempfile.TemporaryDirectory() as folder:
        log, words = Path(folder) / "log", Path(folder) / "words"
        write(log, megabytes)
        words.write_text("".join(f"{text}\n" for text in sorted({text for one in shipped() for text in one.find})))
        found = json.loads(
            subprocess.run((*KZ, "diagnose", str(log), "--json"), capture_output=True, check=True).stdout
        )
        contenders = {
            "kz diagnose": (*KZ, "diagnose", str(log)),
            f"grep -c -F, the same {len(words.read_text().splitlines())} words": (
                "grep",
                "-c",
                "-F",
                "-f",
                str(words),
                str(log),
            ),
            "grep -c, the three words error, fail and exception": (
                "grep",
                "-c",
                "-i",
                "-E",
                "error|fail|exception",
                str(log),
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, command in contenders.items():
                seconds[name].append(processor(*command))
        ours = statistics.median(seconds["kz diagnose"])
        rows = [
            (name, f"{statistics.median(all_of):.1f}", f"{statistics.median(all_of) / ours:.2f}")
            for name, all_of in seconds.items()
        ]
        title = f"diagnose: {megabytes:,} MB, {found['lines']:,} lines, medians of {rounds} rounds"
        table(title, ("contender", "processor seconds", "times kz diagnose"), rows)


if __name__ == "__main__":
    main()
