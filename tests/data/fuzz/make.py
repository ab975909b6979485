"""How the whole files of this folder were made; those that once showed a fault came from the fuzzer, and the bundle is a link.

python -m tests.data.fuzz.make      # javac and aapt2 for the class and the compiled manifest; not part of any test run
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from base64 import b85encode
from hashlib import sha256
from pathlib import Path

from kz_build.release import statement
from tests.formats.apps import SAMPLE, good, manifest
from tests.formats.elves import COMPRESSED, Section, android_note, build_id, elf
from tests.formats.ptes import Made, Method, Qnn, decoder, program, vulkan
from tests.report.test_diff import REPORT

HERE = Path(__file__).parent
SMALL = (
    "version: 1\ndefault: l\nsources:\n  up: {git: 'https://h/up', submodules: [a]}\n  sdk: &sdk\n    archive: 'https://h/{version}.zip'\n"
    "    published:\n      '1': {sha1: '"
    + "b"
    * 40
    + "'}\nlines:\n  l: {up: v1, sdk: '1'}\ntargets:\n  t:\n    platform: linux\n"
    "    abi: arm64\n    sources: [up, sdk]\n    tools: {cmake: ['{sdk}/cmake'], ninja: [n], objcopy: [o]}\n    cmake: {}\n    outputs: {}\n"
)
RECIPE = (
    "about: A\nline: l\ncommand:\n  - {name: export, inside: up, run: ['{python}', -m, x], makes: ['{out}/x.pte']}\n"
    "needs:\n  memory: {gb: [0.6, null], source: s}\n  disk: {'{out}': {gb: [1, 2], source: s}}\n  python: '>=3.11,<3.13'\n"
    "weights:\n  x.json: {content: {dim: 128, of: [1.5, true, ~]}}\n  x.pth: {random: {seed: 1, shape: x.json}}\n"
    "output: x.pte\ncontract: {methods: [forward]}\n"
)
MAIL = (
    "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: =?UTF-8?q?J=C3=B6rg?= <j@h>\n"
    "Date: Mon, 2 Nov 2026 10:00:00 +0100\nSubject: [PATCH 1/2] =?UTF-8?q?Sa?= =?UTF-8?q?y=20two?=\nMIME-Version: 1.0\n"
    "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\nWhy: because.\n\nUpstream-Status: Pending\n---\n"
    "diff --git a/a.txt b/a.txt\nindex " + "1" * 40 + ".." + "2" * 40 + " 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@ f()\n one\n-two\n"
    "+zwei\n three\ndiff --git a/b b/c\nsimilarity index 90%\nrename from b\nrename to c\ndiff --git a/n b/n\nnew file mode 100644\n"
    "index " + "0" * 40 + ".." + "3" * 40 + "\nGIT binary patch\nliteral 5\nM" + b85encode(zlib.compress(b"12345").ljust(16, b"\0")).decode() + "\n\nliteral 0\nHcmV?d00001\n\n-- \n2.50.0\n"
)  # fmt: skip
FOREIGN = (
    "Description: Say two\n More of it.\n .\nAuthor: A B <a@b>\nOrigin: https://h\nLast-Update: 2026-01-02\n---\nIndex: x/a.txt\n"
    "===================================================================\n--- x.orig/a.txt\t2026-01-01\n+++ x/a.txt\n@@ -1 +1,2 @@\n-one\n+two\n+three\n"
    "\\ No newline at end of file\n--- /dev/null\n+++ x/new\n@@ -0,0 +1 @@\n+new\n"
)
JSON = (
    '{"files": [{"filename": "torch-1.0-py3-none-any.whl", "url": "https://h/t.whl", "hashes": {"sha256": "'
    + "a" * 64
    + '"}, "size": 5}]}'
)
HTML = "<html><a href='/t/torch-1.0-py3-none-any.whl#sha256=" + "a" * 64 + "'>torch</a></html>"
KNOWN = [
    {
        "id": "A-1", "aliases": ["CVE-1"], "summary": "bad", "withdrawn": None,
        "affected": [
            {"package": {"ecosystem": "PyPI", "name": "PyYAML"}, "versions": ["6.0"],
             "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "6.0.2"}]}]},
            {"ranges": [{"type": "GIT", "repo": "https://github.com/google/XNNPACK", "events": [{"introduced": "0"}, {"fixed": "b" * 40}]}]},
        ],
    }
]  # fmt: skip
BILL = {
    "serialNumber": "urn:uuid:1",
    "components": [
        {"bom-ref": "et/xnn", "version": "v1", "purl": "pkg:generic/xnn@v1?vcs_url=git%2Bhttps://h/xnn.git%40" + "a" * 40,
         "swhid": ["swh:1:rev:" + "a" * 40], "scope": "required"},
        {"bom-ref": "yaml", "version": "6.0.1", "purl": "pkg:pypi/pyyaml@6.0.1", "scope": "excluded"},
    ],
}  # fmt: skip
PROVENANCE = json.dumps(
    {
        "_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1", "subject": [],
        "predicate": {"buildDefinition": {"buildType": statement.BUILD_TYPE, "externalParameters": {"line": "l", "target": "t"}, "resolvedDependencies": [
            {"name": "up", "annotations": {"kind": "git", "version": "v1"}, "digest": {"gitCommit": "a" * 40, "gitTree": "b" * 40}},
        ]}},
    }
)  # fmt: skip
PAPER = json.dumps(
    {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": {"type": "library", "name": "t", "version": "l", "components": []}},
        "components": [
            {"type": "library", "bom-ref": "up", "name": "up", "version": "v1", "properties": [{"name": "kz:notice:none", "value": "x"}],
             "swhid": ["swh:1:rev:" + "a" * 40, "swh:1:dir:" + "b" * 40]},
        ],
    }
)  # fmt: skip
LOGS = {
    "cmake": "-- The C compiler identification is Clang\nCMake Error at lib/CMakeLists.txt:12 (find_package):\n  Could not find a package\n  configuration file.\n\nCall Stack (most recent call first):\n  CMakeLists.txt:3 (include)\n",
    "gradle": "> Task :app:x FAILED\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':app:x'.\n> A failure occurred while executing X\n   > The file is locked by\n     another program\n\n* Try:\n> Run with --info\n",
    "python": 'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\n    x = g()\nKeyError: "a"\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File "/a/c.py", line 9, in h\na.b.BrokenError: the graph has no output: x\n',
    "logcat": "01-01 00:00:00.000  10  20 E ETLogging: In function load_method(), cannot load x\n01-01 00:00:00.001  10  20 F libc    : Fatal signal 11 (SIGSEGV)\nbacktrace:\n      #00 pc 0000000000012345  /system/lib64/libc.so (abort+1)\n      #01 pc 0000000000000042  /data/app/libx.so (f+2)\n",
    "compiler": "[3/9] Building CXX object a.o\nFAILED: a.o\nsrc/a.cpp:3:7: fatal error: 'x.h' file not found\nld: error: undefined reference to 'f'\nmake: *** [all] Error 2\nsh: exec: x: Permission denied\nerr: nothing to do: no such thing\n",
}  # fmt: skip
CONFLICTS = {
    "c": ("a.c", *("int f(int a)\n{{\n  open(a);\n  if (a < 0)\n    return fail(a);\n{}  close(a);\n  return {};\n}}\n".format(*way) for way in (("", "a"), ("  read(a, all);\n", "b"), ("  check(a);\n", "a + 1")))),
    "python": ("a.py", *("import os\nimport sys\n{}\n\nTABLE = {{\n    'a': 1,\n{}    'c': 3,\n}}\n".format(*way) for way in (("", ""), ("import tomllib", '    "b": 2,\n'), ("import time", "    'bb': 22,\n")))),
    "moved": ("a.cmake", "set(A\n  b.c\n  c.c\n)\nadd(x)\n", "", "set(A\n  b.c\n  bb.c\n  c.c\n)\nadd(x y)\n", "# new\nset(A\n  b.c\n  c.c\n  d.c\n)\nadd(x z)\n"),
}  # fmt: skip
PULL = json.dumps(
    [
        {
            "number": 1, "title": "x", "state": "open", "merged_at": None, "head": {"sha": "a" * 40}, "base": {"ref": "main"},
            "user": {"login": "me"}, "updated_at": "2026-01-01T00:00:00Z", "html_url": "https://h/1", "merge_commit_sha": None,
        }
    ]
)  # fmt: skip


def sums(*papers: str) -> str:
    """SHA256SUMS of a release without artifacts."""
    names = (statement.PROVENANCE, statement.SBOM)
    return statement.sums_text(
        {name: sha256(text.encode()).hexdigest() for name, text in zip(names, papers, strict=True)}
    )


def answer(status: str, body: str, *headers: str) -> bytes:
    """An answer of HTTP with its length."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", body]).encode()


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip, with an executable and a link among its files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.external_attr = (0o120777 if name == "link" else 0o100755) << 16
            archive.writestr(info, data)
    return out.getvalue()


def tarred(mode: str) -> bytes:
    """A tar with a folder, a file, links of both kinds and a long name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, kind in (
            ("d", tarfile.DIRTYPE),
            ("d/f", tarfile.REGTYPE),
            ("d/" + "l" * 120, tarfile.REGTYPE),
            ("s", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o755
            info.linkname = "d/f" if name in "sh" else ""
            info.size = 5 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"12345"))
    return out.getvalue()


def java(folder: Path) -> bytes:
    """A compiled class that loads a library and has a native method."""
    (folder / "A.java").write_text(
        'package p; public class A { static final long L = 1L << 40; static { System.loadLibrary("in" + "ner"); }\n'
        "native int a(String s) throws Exception; Runnable r = () -> System.out.println(L); }\n"
    )
    subprocess.run(["javac", "-d", folder, folder / "A.java"], check=True)
    return (folder / "p/A.class").read_bytes()


def files(folder: Path) -> dict[str, bytes | str]:
    """Every file: format/kind-name -> content."""
    entries = {
        "kind": "git", "version": "v1", "commit": "a" * 40, "tree": "a" * 40, "url": "https://h/up",
        "submodules": {"d": {"url": "https://h/d", "commit": "a" * 40, "tree": None}},
    }  # fmt: skip
    archive = {
        "kind": "archive",
        "version": "1",
        "url": "https://h/1.zip",
        "sha256": "b" * 64,
        "size": 1,
        "origin": "computed",
    }
    session = dict.fromkeys(("base", "old_base", "old_tip", "stack_tip", "tip"), "a" * 40)
    app = {
        "AndroidManifest.xml": manifest(good(), folder),
        "lib/arm64-v8a/libx.so": elf(needed=("libc.so",)),
        "a.pte": b"v2.42.0.251225135753_1",
    }
    wheel = {"x/__init__.py": b"a = 1\n", "x-1.dist-info/METADATA": b"Name: x\n", "x-1.dist-info/RECORD": b"x\n"}
    compressed = (
        b"\1\0\0\0\0\0\0\0"
        + (2970).to_bytes(8, "little")
        + (1).to_bytes(8, "little")
        + zlib.compress(b"/home/me/x\0" * 270)
    )
    ranges = answer("206 Partial Content", " content", 'ETag: "x"', "Content-Range: bytes 5-12/13")
    return {
        "yaml/pins-small": SMALL,
        "yaml/pins-aliases": "a: &a [x, &b {k: v}]\nsources: {<<: [*b, {z: *a}], t: !!str 1}\nd: 2026-01-01\nf: [.nan, 0x1F, 1:30, 1e3, ~, 'q', \"\\u00e9\"]\n? [k]\n: |\n  text\n",
        "yaml/local-small": "sources:\n  up: {folder: /tmp}\nlines:\n  l: {sdk: '2'}\nsubmodules:\n  up: {a: {folder: /tmp}}\n",
        "yaml/recipe-small": RECIPE,
        "yaml/contract-own": "line: l\ncontract:\n  methods: [forward]\n  executorch: v1.4.1\n",
        "yaml/checks-small": "x:\n  - contains: {file: a.txt, text: two, count: 1}\n  - dict_key: {file: a.py, dict: D, key: k, value: 1}\n  - parses: {file: a.yaml}\n",
        "yaml/baseline-own": next((SAMPLE.parent.parent / "baselines").glob("*.yaml")).read_text(),
        "yaml/signatures-small": "a-b:\n  title: T\n  find: [a long text]\n  match: 'a (?P<what>\\w+)'\n  cause: C {what}\n  next: do this\n  seen:\n    - {line: a long text, at: 'https://h/1'}\n  near: [another]\n",
        "lock/lock-small": json.dumps({"version": 1, "unknown": 1, "lines": {"l": {"up": entries, "sdk": archive}}}),
        "lock/record-small": json.dumps({"key": "k", "sources": {"a": "b"}, "files": {"lib/x.so": {"sha256": "b" * 64, "size": 5}, "y": "c" * 64}, "more": [1, None]}),
        "lock/session-small": json.dumps({"verb": "rebase", "line": "l", "source": "up", "into": "l2", "version": "v2", "digest": "d", **session, "todo": ["a" * 40], "dropped": [["p", ["x:1-2"], "c", "t"]]}),
        "lock/report-small": json.dumps(REPORT),
        "lock/change-small": json.dumps({"pins.lock": [None, "eA=="], "patches/l/up/series": ["eA==", None]}),
        "mail/mail-git": MAIL,
        "mail/foreign-dep3": FOREIGN,
        "mail/series-quilt": "# comment\na.patch\nsub/b.patch -p0 # why\nc.patch -p 2 -R\n\n",
        "archive/zip-deflated": zipped({"d/": b"", "d/f": b"12345" * 50, "link": b"d/f", "long/" * 20 + "x": b""}),
        "archive/zip-stored": zipped({"d/f": b"12345", "e": b""}, zipfile.ZIP_STORED),
        "archive/tar-plain": tarred("w"),
        "archive/tar-gz": tarred("w:gz"),
        "archive/tar-xz": tarred("w:xz"),
        "archive/wheel-small": zipped(wheel),
        "archive/apk-small": zipped(app),
        "elf/elf-64": elf(soname="libx.so", needed=("libc.so",), functions=("a", "b"), notes=android_note(26) + build_id("abcd"), sections=(Section(".rodata", b"aten::add.out\0/home/me/x\0", 2), Section(".debug_str", compressed, COMPRESSED))),
        "elf/elf-32": elf(bits=32, machine=40, order="<", soname="liby.so", functions=("a",), notes=build_id("ab"), sections=(Section(".data", b"x"),)),
        "elf/elf-big": elf(order=">", machine=22, needed=("a.so",), sections=(Section(".text", b"x" * 9),)),
        "class/class-a": java(folder),
        "axml/binary-aapt2": manifest(good(), folder),
        "axml/binary-proto": manifest(good(), folder, proto=True),
        "axml/text-small": '<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="x"><application android:extractNativeLibs="true"><activity android:name=".A"/></application></manifest>',
        "pte/pte-xnnpack": (HERE.parent / "pte/xnnpack.pte").read_bytes(),
        "pte/pte-dynamic": (HERE.parent / "pte/dynamic.pte").read_bytes(),
        "pte/pte-vulkan": (HERE.parent / "pte/vulkan.pte").read_bytes(),
        "pte/pte-hybrid": decoder("hybrid", [Qnn()] * 2),
        "pte/pte-graph": program([Method("m", delegates=(Made("VulkanBackend", vulkan(["a"])),))]),
        "release/osv-list": json.dumps(KNOWN),
        "release/osv-answer": json.dumps({"vulns": KNOWN}),
        "release/osv-zip": zipped({"A-1.json": json.dumps(KNOWN[0]).encode()}),
        "release/sbom-small": json.dumps(BILL),
        "release/folder-small": "\n%%%%\n".join((sums(PROVENANCE, PAPER), PROVENANCE, PAPER)),
        "lock/answer-small": json.dumps({"files": {"a.txt": "one\n", "b": {"base64": "eA=="}, "c": None}}),
        **{f"log/log-{name}": log for name, log in LOGS.items()},
        **{f"conflict/sides-{name}": "\n%%%%\n".join(parts) for name, parts in CONFLICTS.items()},
        "http/index-json": answer("200 OK", JSON, "Content-Type: application/vnd.pypi.simple.v1+json"),
        "http/index-html": answer("302 Found", "", "Location: SERVER/other/") + b"\n%%%%\n" + answer("200 OK", HTML, "Content-Type: text/html; charset=utf-8"),
        "http/download-whole": answer("200 OK", "whole content", 'ETag: "x"'),
        "http/download-cut": answer("200 OK", "whole content", 'ETag: "x"')[:-8] + b"\n%%%%\n" + ranges,
        "http/download-chunked": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: "x"\r\n\r\n5\r\nwhole\r\n8\r\n content\r\n0\r\n\r\n',
        "http/download-busy": answer("503 Busy", "", "Retry-After: 3") + b"\n%%%%\n" + answer("200 OK", "whole content"),
        "http/size-small": answer("200 OK", "whole content"),
        "http/github-pulls": answer("200 OK", PULL, 'ETag: "x"', 'Link: <SERVER/2>; rel="next"') + b"\n%%%%\n" + answer("200 OK", "[]"),
    }  # fmt: skip


if __name__ == "__main__":
    scratch = Path(tempfile.mkdtemp())
    for name, content in files(scratch).items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_bytes(content.encode() if isinstance(content, str) else content)
    shutil.rmtree(scratch)
