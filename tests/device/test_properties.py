"""What a device says, parse_info; and what a push has to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kz_build.device import push_plan, text
from kz_build.device.properties import free_storage, known_soc, parse_info, properties, split_answers
from kz_build.device.push_plan import RECORD, Item, difference, line, parse_record

# As a phone of 2025 split_answers; shortened.
SAID = """@@kz props
[ro.product.manufacturer]: [OnePlus]
[ro.product.model]: [OPD2415]
[ro.soc.model]: [SM8750P]
[ro.build.version.release]: [15]
[ro.build.version.sdk]: [35]
[ro.product.cpu.abi]: [arm64-v8a]
[init.svc.vendor.cdsprpcd]: [running]
[init.svc.adsprpcd]: [stopped]
[persist.two]: [first
second]
@@kz soc_id
639
@@kz page
4096
@@kz memory
MemTotal:       11616588 kB
MemFree:          385024 kB
MemAvailable:    5242880 kB
@@kz storage
Filesystem      1K-blocks     Used Available Use% Mounted on
/dev/block/dm-66 231047168 81204224 149842944  36% /data/user/0
@@kz selinux
Enforcing
@@kz daemons
cdsprpcd
@@kz qnn
/vendor/lib64/libQnnHtp.so
/vendor/lib64/libQnnHtpV79Stub.so
@@kz thermal
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 3
Thermal Status: 2
@@kz battery
Current Battery Service state:
  AC powered: false
  Max charging current: 500000
  level: 93
  scale: 100
  temperature: 312
"""


def test_a_phones_answer_is_understood() -> None:
    found = parse_info("R5", SAID)
    assert (found.model, found.soc, found.arch) == ("OnePlus OPD2415", "SM8750P", "v79")
    shown = text.info(found)
    assert "SoC           SM8750P, soc_id 639, HTP v79, VTCM 8 MB" in shown
    assert "QNN           SM8750P: reported unknown up to QNN 2.48" in shown
    assert (found.android, found.sdk, found.abi, found.page_size) == ("15", 35, "arm64-v8a", 4096)
    assert (found.ram_total, found.ram_free) == (11616588 * 1024, 5242880 * 1024)
    assert (found.storage_total, found.storage_free) == (231047168 * 1024, 149842944 * 1024)
    assert found.daemons == {"adsprpcd": "stopped", "cdsprpcd": "running"}
    assert found.qnn == ("/vendor/lib64/libQnnHtp.so", "/vendor/lib64/libQnnHtpV79Stub.so")
    assert (found.thermal, found.battery_percent, found.battery_celsius) == ("moderate", 93, 31.2)
    assert (found.selinux, found.emulated, found.unsaid) == ("Enforcing", False, ())


def test_a_value_of_two_lines_does_not_swallow_others() -> None:
    assert properties(split_answers(SAID)["props"])["persist.two"] == "first\nsecond"


def test_what_a_device_does_not_say_is_named_and_not_guessed() -> None:
    found = parse_info(
        "R5", "sh: getprop: inaccessible\n@@kz page\n@@kz storage\nno such file\n@@kz battery\n  level: ?\n"
    )
    assert found.unsaid == (
        "SoC",
        "HTP arch",
        "Android version",
        "page size",
        "free RAM",
        "free storage",
        "SELinux",
        "adsprpcd",
        "cdsprpcd",
        "vendor's QNN libraries",
        "thermal state",
        "battery",
    )
    assert parse_info("R5", "@@kz props\n[ro.soc.model]: [Tensor G4]\n").arch == ""
    assert parse_info("R5", "@@kz thermal\nThermal Status: 99\n").thermal == ""


def test_numbers_without_an_end_are_not_reported() -> None:
    """Python refuses to read an integer of so many digits."""
    digits = "9" * 5000
    found = parse_info(
        "R5",
        f"@@kz soc_id\n{digits}\n@@kz memory\nMemTotal: {digits} kB\n@@kz storage\n/dev/x {digits} 1 1 1% /data\n"
        f"@@kz thermal\nThermal Status: {digits}\n@@kz battery\n  level: {digits}\n  temperature: {digits}\n",
    )
    assert (found.soc_id, found.ram_total, found.storage_total, found.thermal) == (None, None, None, "")
    assert (found.battery_percent, found.battery_celsius) == (None, None)


def test_variants_of_a_soc_are_that_soc() -> None:
    assert [known_soc(name) for name in ("SM8750", "sm8750-ab", "SM8650P", "SM87501", "Tensor", "")] == [
        "SM8750",
        "SM8750",
        "SM8650",
        "",
        "",
        "",
    ]


def test_a_full_disk_has_nothing_free() -> None:
    assert free_storage("/dev/x 100 110 -10 110% /data") == (102400, 0)
    assert free_storage("df: nope") == (None, None)


def item(name: str, size: int, sha256: str = "new") -> Item:
    return Item(Path("/here", name), name, size, 1, 0o644, sha256)


def entry(name: str, size: int, sha256: str = "old", mtime: int = 1) -> Item:
    return Item(Path(), name, size, mtime, 0o644, sha256)


def test_lines_that_a_pulled_cable_left_half_are_no_entries() -> None:
    whole = entry("a\nb", 3)
    later = entry("a\nb", 4)
    text = f'{line(whole)}\n[]\n{{"name": "c"}}\n"x"\nnull\n{line(later)}\n{line(entry("d", 1))[:-9]}'
    assert parse_record(text) == {"a\nb": later}


@pytest.mark.parametrize("name", [5, "../../x", "/data/x", "", ".", "\ud800", RECORD])
def test_a_record_has_no_names_that_no_push_writes(name: object) -> None:
    """With --clean kz removes what the record names and a push does not have."""
    facts = {"name": name, "size": 1, "mtime": 1, "mode": 0o644, "sha256": "x"}
    assert parse_record(f"{json.dumps(facts)}\n{'[' * 100_000}\n{line(entry('a', 3))}") == {"a": entry("a", 3)}


def test_the_room_that_is_needed_is_that_of_the_worst_moment() -> None:
    big = push_plan.BATCH_BYTES
    had = {name: entry(name, big) for name in "abc"}
    there = dict.fromkeys("abc", (big, 1))
    found = difference([item("a", big), item("b", big), item("c", big)], had, there, clean=False)
    assert found.room == 2 * big, (
        "two new ones lie beside three old ones: the first old one goes when its heir is verified"
    )
    found = difference([item(name, 9) for name in "abc"], had, there, clean=False)
    assert found.room == 27 + 3 * (9 + 2048), "small ones arrive in one archive, and are verified together"
    found = difference([item("d", big + 50)], had, there, clean=True)
    assert (found.stale, found.room) == (("a", "b", "c"), 0)
    assert difference([], had, there, clean=False).room == 0


def test_a_file_is_kept_only_if_record_and_device_agree() -> None:
    had = {"a": entry("a", 5, "x")}
    wanted = item("a", 5, "x")
    assert difference([wanted], had, {"a": (5, 1)}, clean=False).kept == (wanted,)
    for there in ({}, {"a": (4, 1)}, {"a": (5, 2)}):
        assert difference([wanted], had, there, clean=False).send == (wanted,), there
    assert difference([wanted], {}, {"a": (5, 1)}, clean=False).send == (wanted,)
    assert push_plan.RECORD not in push_plan.PARTS
