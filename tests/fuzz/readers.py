"""kz's readers of anyone's bytes, by format. A file's name begins with its kind, which chooses the reader: `pins-x` is a pins.yaml."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kz_build.checks.contract_files import read_contract
from kz_build.checks.pte import check_contract
from kz_build.checks.text_pte import text as text_of_pte
from kz_build.checks.text_pte import tokenizer as text_of_tokenizer
from kz_build.core import stage_record, transaction
from kz_build.core.errors import AuditError
from kz_build.core.files import remove
from kz_build.core.yaml_schema import load
from kz_build.device.baseline import Baseline
from kz_build.diagnose import diagnose
from kz_build.diagnose import text as text_of_log
from kz_build.export.load import one as recipe
from kz_build.formats import elf, elf_units, pte
from kz_build.formats.android_manifest import DamagedError, manifest_of, read_text
from kz_build.formats.app import read_app
from kz_build.formats.axml import read_axml
from kz_build.formats.classfile import java_side
from kz_build.formats.library_types import Library
from kz_build.formats.tokenizer import read_tokenizer
from kz_build.patch.mail import parse_patch
from kz_build.patch.quilt import SeriesEntry, parse_foreign, read_series
from kz_build.patch.rewrite import Mismatch
from kz_build.pins import load as pins
from kz_build.pins.lock_file import parse_lock
from kz_build.pins.pins import Pins
from kz_build.release import attest, osv, statement
from kz_build.release.bundle_form import BadBundleError
from kz_build.release.sigstore_bundle import Builder, Bundles
from kz_build.release.verify import read as read_release
from kz_build.release.verify import verify
from kz_build.release.vex import vex
from kz_build.report import report, text_diff
from kz_build.report.diff import compare
from kz_build.resolve.candidate import made_candidates
from kz_build.rewrite.rules_file import read_rewrite
from kz_build.sources.archive import unpack, wheel_files
from kz_build.stack.files import StackFiles
from kz_build.stack.parse import parse_stack
from kz_build.stack.session import parse_session
from kz_build.stack.suggestion import answer
from tests.conftest import ROOT
from tests.fuzz.web import BETWEEN, read_answers

CORPUS = ROOT / "tests/data/fuzz"
Read = Callable[[bytes, Path], object]
PARTS = (
    osv.Part("yaml", "urn:uuid:1", "6.0.1", ("PyPI", "pyyaml"), "", "", True),
    osv.Part("et/xnn", "urn:uuid:1", "a" * 40, ("", ""), "github.com/google/xnnpack", "a" * 40, False),
)
LIBRARY = Library("lib", ("lib.so",), frozenset({"VulkanBackend"}), qnn="2.42.0.251225", kv_width="16")


class Format(NamedTuple):
    """The reader of each kind of file, and what hostile files of the format are made of, beside each other."""

    kinds: dict[str, Read]
    tokens: tuple[bytes, ...] = ()


def _file(read: Callable[[Path], object], name: str = "x") -> Read:
    """Return a reader of bytes for one of a path."""

    def reader(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return reader


def _pins(data: bytes, folder: Path) -> None:
    (folder / pins.PINS).write_bytes(data)
    pins.load_project(folder, local=False)


def _local(data: bytes, folder: Path) -> None:
    (folder / pins.PINS).write_bytes((CORPUS / "yaml/pins-small").read_bytes())
    (folder / pins.LOCAL).write_bytes(data)
    pins.load_project(folder)


def _checks(data: bytes, _: Path) -> None:
    patch = (CORPUS / "mail/mail-git").read_bytes()
    files = {"series": b"0001-x.patch\n", "0001-x.patch": patch, "checks.yaml": data}
    parse_stack(StackFiles("l", "up", "patches/l/up", ("0001-x.patch",), files, "digest"))


def _rules(data: bytes, _: Path) -> None:
    rewrite = read_rewrite(data, "patches/l/up/0001-x.rewrite.yaml", {"a.txt"}, lambda rule, content: ())
    for path in rewrite.paths:
        assert isinstance(rewrite.generate(path, b"line 1\nline 2\n"), bytes | Mismatch)


def _report(data: bytes, folder: Path) -> None:
    (folder / "old").write_bytes(data)
    (folder / "new").write_bytes((CORPUS / "lock/report-small").read_bytes())
    diff = compare(report.read(folder / "old"), report.read(folder / "new"), "old")
    assert text_diff.table(diff) and text_diff.markdown(diff, "old")


def _unpack(path: Path) -> None:
    remove(path.with_name("unpacked"))
    path.with_name("unpacked").mkdir()
    unpack(path, path.with_name("unpacked"))


def _elf(path: Path) -> None:
    searches: tuple[Callable[[], object], ...] = (
        lambda: elf.strings_with(path, ["/home/me", "/tmp"]),
        lambda: elf.registered_strings(path, ["aten::add.out", "VulkanBackend"]),
        lambda: elf.sections(path),
        lambda: elf.compiled_from(path, "/kz"),
        lambda: elf.section_sizes(path),
        lambda: elf_units.code_by_source(path),
    )
    searches[path.stat().st_size % len(searches)]()
    elf.read_elf(path)


def _damaged(read: Callable[[bytes], object]) -> Read:
    """Return a reader whose documented error is DamagedError: its callers name the file."""

    def reader(data: bytes, folder: Path) -> None:
        try:
            read(data)
        except DamagedError as error:
            raise AuditError(str(error)) from error

    return reader


def _chat(path: Path) -> None:
    tokenizer = path.with_name("tokenizer.json")
    tokenizer.write_bytes((CORPUS / "tokenizer/tokenizer-tiktoken").read_bytes())
    _tokenizer(tokenizer)


def _tokenizer(path: Path) -> None:
    program = pte.parse((CORPUS / "pte/pte-hybrid").read_bytes(), "x.pte")
    facts = read_tokenizer(path)
    assert len(text_of_tokenizer(facts)) < 400
    check_contract(program, None, LIBRARY, "", facts)


def _pte(data: bytes) -> None:
    facts = pte.parse(data, "x.pte")
    assert max(map(len, text_of_pte(facts).splitlines())) < 400
    check_contract(facts, None, LIBRARY, "SM8750")


def _osv(path: Path) -> None:
    found, count = osv.ask(PARTS, path)
    assert list(osv.checks(found, PARTS, count)) and vex(found, "1")


def _bill(data: bytes, _: Path) -> None:
    try:
        bill = json.loads(data)
    except (ValueError, RecursionError) as error:  # which the checks of a release ask first
        raise AuditError(str(error)) from error
    osv.parts(bill)


def _release(data: bytes, folder: Path) -> None:
    release = folder / "release"
    release.mkdir(exist_ok=True)
    names = (statement.SUMS, statement.PROVENANCE, statement.SBOM)
    for name, part in zip(names, data.split(BETWEEN, 2), strict=False):
        (release / name).write_bytes(part)
    checks = verify(release)
    if not any(check.failed for check in checks):
        assert attest._whole(read_release(release))


@cache
def _bundles() -> Bundles:
    return Bundles(
        (Builder("https://github.com/me/app/.github/workflows/release.yml@refs/tags/v1", "https://i"),), None
    )


def _bundle(data: bytes, _: Path) -> None:
    try:
        _bundles().signed(data)
    except BadBundleError as error:
        if "match" not in str(error):  # what is right but for its signer is read whole
            raise AuditError(str(error)) from error


def _log(path: Path) -> None:
    diagnosis = diagnose.diagnose(str(path))
    assert max(map(len, text_of_log.text(diagnosis).splitlines())) < 1000


def _conflict(data: bytes, _: Path) -> None:
    """Make candidates for a file; upstream has that one and another, or only the other."""
    name, base, ours, theirs, other = (data.split(BETWEEN, 4) + [b""] * 4)[:5]
    path = name.decode(errors="replace")
    upstream = {path: ours, f"other/{path}": other} if ours else {f"other/{path}": other}
    for one in made_candidates({path: base}, upstream, {path: theirs}):
        assert one.candidate.files.keys() <= {path, *upstream} and 0 <= one.candidate.confidence <= 1


FORMATS: dict[str, Format] = {
    "yaml": Format(
        {
            "pins": _pins,
            "local": _local,
            "recipe": _file(lambda path: recipe(path, Pins({"lines": {"l": {"up": "v1"}}}, (), ""))),
            "contract": _file(lambda path: read_contract(path, path.parent)),
            "checks": _checks,
            "rewrite": _rules,
            "baseline": _file(lambda path: load(path, Baseline, "baselines")),
            "signatures": _file(diagnose.read),
        },
        (
            b"&a ", b"*a", b"<<: ", b"<<: *a", b"<<: [*a, *a]", b"!!python/object:x ", b"!!set ", b"!!omap ", b"!!binary ", b"!x ",
            b"!!int x", b"!!float x", b"!!null ", b"2001-02-30", b"2001-01-01", b"2001-01-01T00:00:00Z", b".nan", b".inf", b"-.inf",
            b"9" * 5000, b"0x" + b"f" * 40, b"1:30:00", b"1e999", b"- ", b"? ", b": ", b"[", b"]", b"{", b"}", b"[" * 90, b"- " * 90,
            b"|\n", b">-\n", b"'", b'"', b'"\\ud800"', b'"\\0"', b'"\\e[31m"', b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"---\n",
            b"...\n", b"%YAML 9.9\n", b"%TAG ! x\n", b"\t", b"\r", b"\xc2\x85", b"\xe2\x80\xae", b"~", b"null", b"true", b"0", b"-1", b"",
        ),
    ),
    "lock": Format(
        {
            "lock": lambda data, _: parse_lock(data, "pins.lock"),
            "record": _file(stage_record.load_any),
            "report": _report,
            "session": lambda data, _: parse_session(data, "session.json"),
            "answer": _file(answer),
            "change": _file(lambda path: transaction.roll_forward(path.parent), transaction.NAME),
        },
        (
            b"null", b"true", b"-1", b"1e999", b"NaN", b"Infinity", b"9" * 5000, b"[", b"]", b"{", b"}", b"[" * 3000, b'{"a":' * 3000,
            b'""', b'"\\ud800"', b'"\\u0000"', b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b",", b":", b'"../x"', b'".git"', b'"/etc/x"',
        ),
    ),
    "mail": Format(
        {
            "mail": lambda data, _: parse_patch("0001-x.patch", data),
            "foreign": lambda data, _: parse_foreign(SeriesEntry("x.patch"), "x.patch", data),
            "series": lambda data, _: read_series(data.decode("utf-8", "replace"), "series"),
        },
        (
            b"=?utf-8?q?=", b"=?utf-8?b?", b"?=", b"=?x-unknown?q?a?=", b"=?idna?b?eG4tLQ==?=", b"=?utf-16?b?/w==?=", b"=?hex?q?zz?=", b"\xff",
            b"From: ", b"Subject: ", b"Date: ", b"@@ -1 +1 @@\n", b"@@ -0,0 +1,99999999999999999999 @@\n", b"--- a/x\n", b"+++ b/x\n",
            b"+++ /dev/null\n", b"diff --git a/x b/x\n", b"GIT binary patch\n", b"literal 99999999999\n", b"delta 5\n", b"zcmV\n",
            b"rename from x\n", b"copy to y\n", b"new file mode 160000\n", b"old mode 1\n", b"index 1..2 3\n", b"similarity index 999%\n",
            b"Binary files a/x and b/x differ\n", b"\\ No newline at end of file\n", b'"a/\\303\\999"', b"\r\n", b"\0", b"-p0", b"-p99999999999999999999",
            b"-R", b"#", b"../", b"-- \n", b"@@ -99999999999999999999 +1 @@ \n",
        ),
    ),
    "archive": Format(
        {
            "zip": _file(_unpack),
            "tar": _file(_unpack),
            "wheel": _file(wheel_files),
            "apk": _file(read_app),
        },
        (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"../", b"/", b"\0", b"ustar", b"0777777", b"GNU.sparse.size=99999999999"),
    ),
    "elf": Format({"elf": _file(_elf)}, (b"\x7fELF", b"ZLIB", b"\x10\0\0\0", b"GNU\0", b"Android\0")),
    "class": Format({"class": _damaged(lambda data: java_side([data]))}, (b"\xca\xfe\xba\xbe", b"\x12\1\xb8\0\2", b"Code", b"loadLibrary")),
    "axml": Format(
        {
            "binary": _damaged(lambda data: manifest_of(read_axml(data))),
            "text": _damaged(lambda data: manifest_of(read_text(data))),
        },
        (
            b"\2\1\x10\0", b"\3\1\x10\0", b"\xff\xff\xff\xff", b"<!DOCTYPE x [", b"<!ENTITY a 'b'>", b"&a;", b"<a>", b"</a>", b"<a " * 70,
            b"android:", b'xmlns:a="b"', b"<![CDATA[", b"<?xml version='1.0' encoding='utf-16'?>", b"\x0a\x02\x0a\x00", b"\xff\xff\xff\xff\x0f",
        ),
    ),
    "pte": Format({"pte": lambda data, _: _pte(data)}, (b"ET12", b"eh00", b"VH00", b"\xcd\xab\x78\x56")),
    "tokenizer": Format(
        {"tokenizer": _file(_tokenizer, "tokenizer.json"), "config": _file(_chat, "tokenizer_config.json")},
        (
            b'"id":', b"-1", b"9" * 5000, b"NaN", b"null", b"[]", b"{}", b"[" * 3000, b'"\\ud800"', b'"Regex":"(?', b"{9999999999}", b"\\Q",
            b"[[:", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xd0\x02\xff\xff\x03", b"\x80" * 12, b"AA== 1\n", b"== 99999999999\n",
            b"{%", b"<|", b"|>", "<｜a｜>".encode(),
        ),
    ),
    "release": Format(
        {"osv": _file(_osv), "sbom": _bill, "folder": _release, "bundle": _bundle},
        (
            b"null", b"true", b"-1", b"1e999", b"9" * 5000, b"[" * 3000, b'""', b'"\\ud800"', b'"\\u0000"', b"\xff", b'{"introduced": "0"}',
            b'"fixed"', b'"1!2"', b'"1.0.dev999999999999999999999999"', b'"type": "GIT"', b'"PyYAML"', b"PK\3\4",
            b"pkg:pypi/x@", b"?vcs_url=git%2B", b'"swhid": [1]', BETWEEN, b"[" * 70, b"]" * 70, b"[" * 400, b"]" * 400,
        ),
    ),
    "log": Format(
        {"log": _file(_log)},
        (
            b"error: ", b"Error: ", b"ERROR ", b"fatal: ", b"E: ", b"E x: ", b"e: file:///x:1:2: ", b"CMake Error at x:1 (x):\n", b"CMake Error: ",
            b"FAILURE: Build failed with an exception.\n* What went wrong:\n", b"> ", b"* Try:\n", b"Execution failed for task ':x'.\n",
            b"Traceback (most recent call last):\n", b'  File "x", line 1, in x\n', b"The above exception was the direct cause of", b"#00 pc 00 /x.so\n",
            b"failed: ", b"a b c d failed: ", b"Caused by: ", b"x.y.ZError: ", b"No such file or directory", b"Permission denied", b"cannot ",
            b"01-01 00:00:00.000  1  2 E x : ", b"BUILD SUCCESSFUL", b"x:1:1: ", b"undefined reference to", b"x.cpp(1,1): ", b"::", b"." * 900,
            b"a." * 900, b"(" * 900, b"A " * 900, b" " * 900, b"\r", b"\x1b[31m", b"\x1b]", b"\0", b"\xff", b"\xff\xfe", b"\n\n", b"\t", b"'", b'"',
        ),
    ),
    "conflict": Format(
        {"sides": _conflict},
        (
            BETWEEN, b"\n", b"\r\n", b"\0", b"\xff", b"{\n", b"}\n", b"(", b")", b"#if 1\n", b"#endif\n", b"\"\"\"", b"/*", b"//", b"#", b"'",
            b"a\n" * 300, b"a, b\n" * 150, b"\n" * 300, b"(" * 300, b"a " * 300, b"\t" * 60, b"<<<<<<< x\n", b"-" * 300, b"x.py", b"CMakeLists.txt",
        ),
    ),
    "http": Format(
        {kind: read_answers(kind) for kind in ("index", "download", "size", "github")},
        (
            b"HTTP/1.1 ", b"200 OK", b"206 Partial Content", b"416 X", b"301 Moved", b"503 X", b"429 X", b"304 X", b"999 X", b"100 Continue\r\n\r\n",
            b"\r\n", b"Content-Length: ", b"-1", b"5, 6", b"99999999999999999999", b"Content-Range: bytes ", b"bytes 0-3/8", b"*/*", b"0-",
            b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n", b"0\r\n\r\n", b"ETag: \"x\"\r\n", b"ETag: W/\"x\"\r\n", b"Retry-After: 99999999\r\n",
            b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", b"Retry-After: x\r\n", b"Location: http://[\r\n", b"Location: file:///etc/passwd\r\n",
            b"Location: //\r\n", b"Location: http://\xff\r\n", b"Location: /x\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n",
            b"Content-Type: application/json\r\n", b"Content-Type: text/html; charset=zz\r\n", b"null", b"[]", b"{}", b"\"\\ud800\"", b"<a href='http://['>",
            b"<a href=''>", b"\xff", b"[" * 3000, b"Set-Cookie: \xff\r\n", b"X: " + b"x" * 70000,
        ),
    ),
}  # fmt: skip
