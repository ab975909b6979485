"""Small facts of everything that a page can show."""

from __future__ import annotations

from dataclasses import replace

from kz_build.core.check import Check, Status
from kz_build.export.phases import Phase
from kz_build.report.facts import (
    BuildFacts,
    Cell,
    Change,
    DeviceFacts,
    ExportFacts,
    Facts,
    Figure,
    File,
    PairFacts,
    PatchFacts,
    PinFacts,
    PullFacts,
    RadarFacts,
    Span,
    StackFacts,
)
from kz_build.upstream.verify import Version

VERSIONS = (
    Version("v0.9", "9" * 40, "2026-01-01"),
    Version("v1.0", "0" * 40, "2026-02-01"),
    Version("v1.1", "1" * 40, "2026-04-01"),
    Version("main", "f" * 40, "2026-06-30"),
)


def patch(text: str, state: str = "broken") -> PatchFacts:
    """A patch that applies on its pin, and is `state` on upstream's branch."""
    change = Change("c" * 40, "2026-03-10", text, "v1.1")
    now = Cell(state, "content", (f"a.c: {text} is gone (hunk at line 7 of the patch)",), change)
    fine = Cell("applies", "clean")
    spans = (Span("2026-02-01", "2026-03-10", fine, None), Span("2026-03-10", "2026-06-30", now, change))
    return PatchFacts("0001-x.patch", text, "Pending", (Cell("unknown"), fine, now, now), spans)


def facts(text: str = "text", state: str = "broken") -> Facts:
    """Facts with `text` wherever others can put theirs."""
    stack = StackFacts("l1", "up", "v1.0", VERSIONS, (patch(text, state),), VERSIONS[-1], 1234, (f"lacks {text}",))
    checks = (
        Check("liba.so", "elf", Status.PASS, text),
        Check("liba.so", "size", Status.SKIP, f"nobody asked: {text}", required=False),
    )
    breaks = Cell("broken", "content", (f"a.c: {text} is gone (hunk at line 7 of the patch)",))
    pull = PullFacts(77, text, True, "0001-x.patch", Cell("applies", "clean"), breaks)
    radar = RadarFacts("l1", "up", "2026-07-01 06:00 UTC", "main", "f" * 40, "2026-06-30", 1234, (pull,))
    build = BuildFacts(
        "l1", "android", "host", "off", "k" * 64, 61.5, (("configure", 10.0), ("build", 51.5)), (30, 10),
        (File(f"lib/{text}.so", "ours", 300, ((".text", 200), (".rodata", 60), (text, 40)), ((text, 150), ("up/x", 20))), File("x.bin", "", 9, None)),
        (("fetch", "PASS", 1.0), ("export", "SKIP", None)), checks, False, {"up": (text,)},
    )  # fmt: skip
    model = ExportFacts(
        "l1", text, "m.pte", 3_000_000, 30.0, (("s", Phase(text, 10.0, 4 * 10**9, 0)), ("s", Phase("save", 20.0, 10**9, 0))),
        3e9, 5e9, "SM8750", "2.42", (Check("m.pte", "methods", Status.PASS, text),),
    )  # fmt: skip
    figure = Figure("decode", "tok/s", False, (14.0, 15.0, 16.0), 15.0, (15.7, 21.2), "worse")
    device = DeviceFacts("l1", "android", text, "R5", text, "SM8650", "shell", False, (), (figure,), (text,))
    emulated = DeviceFacts("l1", "android", "m", "127.0.0.1:1", "kz EMULATED", "SM8750", "shell", True, checks, (), ())
    pin = PinFacts(("l1",), "up", "git", "v1.0", "2026-02-01", "v1.1", "2026-04-01", "its commit", True, (text,))
    return Facts(
        kz="0.1.0",
        lines=("l1",),
        overrides=((f"sources.up.{text}", text),),
        stacks=(stack, StackFacts("l1", "wheel", "2.0", (), (PatchFacts(text, text, "", ()),), lacks=(text,))),
        radars=(radar,),
        builds=(build,),
        exports=(model,),
        devices=(device, emulated),
        pairs=(
            PairFacts("l1", "android", text, "2.42", "SM8650", "FAIL", True, (text,)),
            PairFacts("l1", "linux", text, "", "", "PASS", False, (), f"kz {text}"),
        ),
        pins=(pin,),
        reproduced=(("l1", "android", False),),
    )


def nothing() -> Facts:
    """Facts of a project in which nothing was done yet."""
    return replace(
        facts(), overrides=(), stacks=(), radars=(), builds=(), exports=(), devices=(), pairs=(), pins=(), reproduced=()
    )
