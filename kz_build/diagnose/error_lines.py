"""The lines of a log that look like its error, for logs in which no signature is found: ranked, and few."""

from __future__ import annotations

import re
from typing import NamedTuple

from kz_build.diagnose.log_line import Found, Prefix, around, bare, is_prompt, prefix, trimmed
from kz_build.diagnose.signature import ErrorLine

MOST = 5
LIMIT = 10_000
"""Lines with one of the texts after which that text is no longer searched for."""

EXIT = 4
"""The rank of lines that only say that something failed."""
PASSAGE, PASSAGE_LINES, WIDTH = 3000, 16, 400
"""Bytes and lines of an error that are kept for the families, and characters of a line."""
PHRASE = 100
"""Characters of a phrase to search for: searches refuse long ones."""
FRAME = 4
"""Lines between an exception's last frame and itself."""

TRACEBACK = b"Traceback (most recent"
GRADLE = b"What went wrong:"
TASK = b"Execution failed for task "
PROBLEM = b"A problem occurred "
CMAKE, CMAKE_IN = b"CMake Error at ", b"CMake Error in "
BACKTRACE, FRAME_0, FRAME_00 = b"backtrace:", b"#00 pc ", b"#00  pc "
TEXTS = frozenset((
    TRACEBACK, GRADLE, CMAKE, b"rror:", b"ERROR", b"xception", b"Fatal signal", b"fatal: ", b"terminate called",
    b"Abort message", b"Aborted", b"Segmentation fault", b"Assertion", b"undefined reference to", b" E ",
    b"E/", b"E 00:", b"E [Qnn", b"E tokenizers:", b"nknown ", b"nrecognized ", b"rrorWith", b"FATAL", b"FAILED", b"ailed", b"annot ", b"CANNOT", b"xit code",
    b" *** ", b"not found", b"ould not ", b"rror occurred",
    b"No solution found", b"e: /", b"e: file:", b".kt: (", b"nvcc fatal", b"ultiple definition", b"uplicate symbol",
    b"Undefined symbol", b"GGML_ASSERT(", b"CONFLICT (", b"No space left", b"ermission denied", b"No such file",
    b"not recognized", b"Kernel panic", b"what():", BACKTRACE, b"[E:", b"nresolved reference", b"can not be used when", b"failed assertion", b"ld: library", b"exc.Unsupported",
    b"error loading model", b"rror response from",
    TASK, PROBLEM, b"assert failed", b"nable to ", FRAME_0, FRAME_00, b"is not an object", b"xec format error", b"rror running link", b"rror while finding", b"rror[E", b"annot find module", b"no such module", b"npm ERR!", b"Check failed:", b"ld: unknown option", b"Unsupported: ", b"Library not loaded: ", b"NOTFOUND: ", b"exec container process",
    b"##[error]", b"unbound variable", b"parameter not set", b"the specified label", b"ubstitution", b"yntax error near",
    b"invalid argument to", b"in this build", b"double free", b"alloc(): ", b"free(): ", b"VK_ERROR_", b"vk::", b"CL_OUT_OF", b"CL_BUILD_",
    b"SSR Detected", b"detected ***", b"aemon disappeared", b"PANIC: ", b"[!] ", b" [rejected]", b" [remote rejected]", b"--explain E0",
    b"being used by another", b"Hunk #", b"schema_version ", b"of the Java Runtime (", b"imeoutExpired", b"nvariant Violation", b"ONNXRuntimeError]",
    b"rror C1", b"rror C2", b"rror C3", b"rror LNK", b"rror\tLNK", b"rror\tC", b"rror MSB", b"rror D8", b"rror : ", CMAKE_IN, b"too long", b"ndroid NDK: ", b"nvalid configuration", b"ersion mismatch error", b"lto object", b"of input file", b"relocation truncated",
    b"of memory alloc", b"panicked at", b", but linking in ", b"ar: no archive", b"overflowed by", b"erminated abruptly", b"File already exists in", b"had errors.", b"s missing in 'feeds'", b"odel cannot be NULL", b"] Broken pipe", b"yntax error: ", b"rror adding symbols", b"in generic ELF",
))  # fmt: skip
"""What a line must contain to be looked at: plain texts, for only those are fast."""

_EXCEPTION = re.compile(
    r"^(?:E\s{2,}|\[?rank\d+\]?:\s*|[|│]\s*|(?:→ )?Caused by: |Fatal Exception: |Exception in thread \"[^\"]*\" |Pending exception )*"
    r"(?:(?:[\w$]+\.)*(?:[A-Z][\w$]*(?:Error|Exception|Interrupt|Exit)|TimeoutExpired)\b(?::|\s*$)|(?:[a-z_]\w*\.){2,}[A-Z]\w+: |Exception: |Abort message: |Unsupported: )"
)
_FATAL = re.compile(
    r"Fatal signal \d+|^Abort message: |terminate called |terminating due to |^what\(\):  |Assertion .*failed"
    r"|[Aa]ssert(?:ion)? failed|\bpanic: |\] Check failed \(|GGML_ASSERT\("
)
_ERROR = re.compile(
    r"\b(?:fatal error|[Ee]rror|ERROR)(?: \w+){0,3} ?:(?: |$)|\berror\[E\d|^Error\t(?:LNK|C)\d{4}\t|^ninja: fatal: |^Error:(?:\w|\(\d+)|\[E:\w+|can not be used when |Error while finding module |not found for architecture |\[ERROR\]|\[E\]|<E>|\] \[E |^ERROR\b|^CMake Error\b|^FATAL\b|undefined (?:reference to|symbol)"
    r"|Undefined symbol: |^Undefined symbols for |exec user process caused|exec container process|Library not loaded: |-NOTFOUND: |loading shared libraries: |nvcc fatal\s*:|No solution found when|^e: |^fatal: |is not an object|incompatible target|xec format error|Error running link command|multiple definition of |duplicate symbol|^CONFLICT \("
    r"|No space left on device|^ld: |\*\*\* No (?:rule|targets) |\*\*\* missing separator|\*\*\* \S+: |\*\*\* .*\. +Stop\."
)
_SAID = re.compile(
    r"^(?:[\w./+\[\]-]+: )+(?:line \d+: |\d+: )?(?:\S+: )?(?:[Cc]ommand )?not found$|unbound variable$|parameter (?:null or )?not set$|matching the specified labels?|##\[error\](?!Process completed)|[Bb]ad substitution|yntax error near"
    r"|\[\[: not found|: invalid argument to -|provider is not (?:supported|enabled) in this build|double free or|(?:malloc|free|realloc)\(\): |VK_ERROR_(?:OUT_OF|DEVICE_LOST|INITIAL|UNKNOWN)|\bvk::\S+: Error"
    r"|Argument list too long|(?:command line|filename or extension) is too long\.?$|^Android NDK: (?!WARNING|INFO| )|^Invalid configuration [`'‘]|^libtool: Version mismatch error|: plugin needed to handle lto object|architecture of input file|: [Ff]ile format not recognized|relocation truncated to fit"
    r"|out of memory allocating|region [`'].* overflowed by |\bar: no archive members|' panicked at |^Server terminated abruptly|^\[libprotobuf (?:FATAL|ERROR) |\.proto(?::\d+:\d+)?: (?:Import \"|File not found|File does not reside)|: program not found or is not executable"
    r"|CL_(?:OUT_OF|BUILD)_|SSR Detected|\*\*\* .* detected \*\*\*|^PANIC: |\[(?:remote )?rejected\]|used by another process|^Hunk #\d+ FAILED|Invariant Violation: |\] Broken pipe$|yntax error: unexpected|model cannot be NULL|Relocations in generic ELF|^(?:In \S+, )?[Bb]uilding for .{2,30}, but linking in (?:object|dylib|\.tbd)"
    r"|^\[!\] (?:CocoaPods could not|Unable to find a|No podspec|Invalid `Podfile|Error installing)"
)
"""Errors that no word of _ERROR marks."""
_FAILED = re.compile(
    r"\b[Ff]ailed(?: to| with|:)|^Could not \w+|\b[Ee]rror occurred while|^E: |\b[Uu]nable to |\b[Cc]annot \w+|^CANNOT|\bFAILED\b|(?:command|: \d+: (?:\S+: )?\S+:) not found$"
    r"|: (?:Permission denied|No such file or directory)|is not recognized as an |^(?:[\w./+-]+: )?(?:[Uu]nknown|[Uu]nrecognized|Invalid|Unsupported) (?:[\w-]+ ){0,3}(?:option|argument|parameter|key|command)"
)
_FOLLOWS = re.compile(
    r"^(?:E\s+)?(?:subprocess\.)?CalledProcessError: (?!.*died with)|subprocess-exited-with-error|metadata-generation-failed|[Ff]ailed (?:building|to build) "
    r"|Could not build wheels|ninja: build stopped|ninja: error: rebuilding '[^']*': subcommand failed|(?:Build|CMake|Each) step for \S+ failed|execute_process failed command indexes|^The (?:C|CXX|CUDA|ASM|OBJC|OBJCXX|Swift|Fortran) compiler$|^set_property could not find TARGET|[Cc]an(?:not| not) determine link(?:er)? language for target|configure: error: in [`']|^autoreconf: (?:error: )?.*failed with exit status|Analysis of target '.*' failed; build aborted|: (?:C\+\+ c|C|Linking |Genrule )(?:ompilation)?(?: of rule)? .*failed \(Exit|An error occurred during the fetch of repository|error: could not compile `|^ERROR: .*: Error in (?:build|package)\(\) method|ConanException: Error \d+ while executing|fatal error LNK(?:1120|1169)|\*\*\* Android NDK: Aborting|^Android NDK: Aborting|configure_file Problem configuring file|CMake Error: Generator: |ld returned \d|error: linking with |[Ll]inker command failed|error building at STEP|error: command '.*' failed with exit"
    r"|RuntimeError: Error (?:compiling objects for|building) extension|Process '.*' finished with non-zero|Build command failed\.|[Cc]ompilation (?:error|failed)[.;] [Ss]ee"
    r"|fatal: clone of .* into submodule path|fatal: Could not read from remote repository|Configuring incomplete|Execution failed for task"
    r"|Error: Command failed: |Incompatible classes were found in dependencies|ProcessException: |^FAILED: (?:\[code=\d+\] )?\S+\.\w+|recipe for target .* failed|ChildFailedError|See above for output|remote end hung up unexpectedly$|^Unable to checkout |source list generation failed|^Error generating(?: file)?$"
)
"""Lines that only say that a step failed whose own error stands before them."""
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[: ]+(?!0\b)-?\d+\s*\.?$|exit code:? [1-9]|non-zero exit|\*\*\* \["
    r"|B(?:UILD FAILED|uild failed)|build stopped|Segmentation fault|\bAborted\b|core dumped"
)
_ORDINARY = re.compile(
    r"(?i)\b(?:0|no|without|ignor\w+|zero) (?:\w+ )?(?:errors?|failures?|exceptions?|failed)\b"
    r"|\b(?:errors?|failed|failures?|error[_ ]code|status)\s*[=:]?\s*(?:0x0+|0|none|null|ok|false)\b|^\W*(?:\w*warning|info|debug|note)\b"
    r"|QnnBackend_validateOpConfig failed|Failed to validate op |has incorrect (?:Rank|Value|Datatype)|^-- |\w+Warning: |: warning: |: note: |^[+$] "
)
_CODE = re.compile(
    r"^(?:at |\.\.\. |raise |throw |except |return |import |from |#\d+ (?!\d+\.\d+ )|//|\^|File \"|>>> |f['\"]|\w+ = )|pc [0-9a-f]{8}"
)
_NAMES = re.compile(
    r"(?i)executorch|qnn|htp|fastrpc|adsprpc|cdsp|tokenizers|xnnpack|vulkan|androidruntime|linker|etlogging|llama"
)
_UNRELATED_TAGS = frozenset({"DEBUG", "audit", "tombstoned", "crash_dump64"})


def rank(line: str) -> int:
    """Return how likely a line is the error: 0 is the best, -1 is no error at all."""
    level, tag, message = prefix(line)
    if is_prompt(line):
        return -1
    if not message or _CODE.search(message) or tag in _UNRELATED_TAGS and not _FATAL.search(message):
        return -1
    if _FOLLOWS.search(message):
        return EXIT
    if _EXCEPTION.match(message):
        return 0
    if level and level not in "EFA" or _ORDINARY.search(message):
        return -1
    if _FATAL.search(message):
        return 0
    return _lesser(Prefix(level, tag, message))


def _lesser(line: Prefix) -> int:
    known = bool(_NAMES.search(line.tag or line.message))
    if line.level:
        return 1 if known or line.level != "E" else 3
    if _ERROR.search(line.message) or _SAID.search(line.message):
        return 1 if not _EXIT.search(line.message) else 4
    if _EXIT.search(line.message):
        return 4
    return 2 if _FAILED.search(line.message) else -1


class Candidate(NamedTuple):
    """A line that may be the error, how likely it is (rank), and the lines around it that belong to it."""

    rank: int
    line: ErrorLine
    passage: str


class ErrorLines:
    """Show it the texts in the blocks of a log, then ask `best`. It keeps a few lines of each rank."""

    def __init__(self) -> None:
        self.texts = TEXTS
        self._seen: dict[bytes, int] = {}
        self._kept: dict[int, Candidate] = {}
        self._full: set[int] = set()
        self._said: set[str] = set()

    def look_at(self, block: bytes) -> None:
        """Look at every line of a block."""
        for text in self.texts:
            at = block.find(text)
            while at >= 0:
                self.look(block, 0, text, at)
                at = block.find(text, at + 1)
        self.trim()

    def look(self, block: bytes, before: int, text: bytes, at: int) -> None:
        """Look at the line around a text of TEXTS; `before` is the number of lines before the block."""
        if text not in self.texts:
            return
        found = _last(block, at, text) if text in _HEADS else around(block, at)
        head = around(block, at).start if text in _OF_GRADLE else at if text in (CMAKE, CMAKE_IN) else found.start
        self._note(block, before, head, found, sure=text in _HEADS)
        self._seen[text] = self._seen.get(text, 0) + 1
        if self._seen[text] >= LIMIT:
            self.texts -= {text}

    def _note(self, block: bytes, before: int, head: int, found: Found, *, sure: bool) -> None:
        value = rank(found.text)
        if value == 2 and found.text.startswith("  "):
            value = 3  # it goes on with what another line says, perhaps a warning
        if sure and found.text.strip() and value < EXIT:
            value = 0
        if value == 0 and (block.find(_WRAPPED, found.end, found.end + 400) >= 0 or _has_cause(block, found.end)):
            value = 1
        # What trim would drop is not made at all: in a large log that is nearly every line.
        if value < 0 or value in self._full:
            return
        words = search_words(prefix(found.text).message)
        if words in self._said:
            return
        number = before + block.count(b"\n", 0, found.start) + 1
        old = self._kept.get(number)
        passage = _passage(block, head)
        if not old or (value, -len(passage)) < (old.rank, -len(old.passage)):
            self._kept[number] = Candidate(value, ErrorLine(number, trimmed(found.text), words), passage)

    def stop(self) -> None:
        """Look at no more lines: those that were seen stay."""
        self.texts = frozenset()

    def trim(self) -> None:
        """Keep the first lines of each rank, each text once; with enough of the best, search no more."""
        counts: dict[int, int] = {}
        seen: set[str] = set()
        for number, (value, line, _) in sorted(self._kept.items()):
            counts[value] = counts.get(value, 0) + 1
            if counts[value] > MOST or line.search in seen:
                counts[value] -= 1
                del self._kept[number]
            seen.add(line.search)
        self._full = {value for value, count in counts.items() if count >= MOST}
        self._said = {one.line.search for one in self._kept.values()}
        if counts.get(0, 0) >= MOST:
            self.texts = frozenset()

    def add(self, later: ErrorLines, before: int) -> None:
        """Add what another found in the part of the log that begins after `before` lines."""
        for value, line, passage in later._kept.values():
            number = line.line + before
            self._kept[number] = Candidate(value, ErrorLine(number, line.text, line.search), passage)
        self.trim()

    def best(self) -> tuple[Candidate, ...]:
        """Return the likeliest lines, the best first."""
        return tuple(sorted(self._kept.values(), key=lambda one: (one.rank, one.line.line))[:MOST])


_FRAME = re.compile(r"#\d+\s+pc ")
_SYSTEM = re.compile(
    r" /(?:apex|system|vendor|odm|product)/|\blib(?:c|m|dl|c\+\+_shared|art\w*)\.so\b|\[vdso\]|<anonymous|\[anon|jit-cache"
    r"|base\.(?:vdex|odex|oat)"
)
_WRAPPED = b"The above exception was the direct cause of"
"""Python's words between an exception and the one that was made of it, which says more."""
JAVA_FRAMES = 12_000
"""Bytes below a Java exception in which its "Caused by" is looked for."""
_OF_GRADLE = (GRADLE, TASK, PROBLEM)
_HEADS = (TRACEBACK, *_OF_GRADLE, CMAKE, CMAKE_IN, BACKTRACE, FRAME_0, FRAME_00)
"""Heads of several lines, of which another says what is wrong."""


def _has_cause(block: bytes, end: int) -> bool:
    """Return whether a "Caused by" stands below a Java exception's frames, which end at the first line that is none."""
    for line in block[end + 1 : end + JAVA_FRAMES].split(b"\n"):
        if b"Caused by: " in line:
            return True
        if b"at " not in line and b"... " not in line:
            return False
    return False


def _last(block: bytes, at: int, head: bytes) -> Found:
    """Return the line below a head that says what is wrong.

    Of a traceback it is the first that is not indented, of Gradle the innermost `>`, of CMake the first, of a crash on
    Android the first frame outside of the system. In a notebook the frames are not indented: there the line of the
    exception is found by itself.
    """
    found = around(block, at)
    column = at - found.start if head == TRACEBACK else 0
    below = Found(found.start, found.end, "")
    crash = head in (BACKTRACE, FRAME_0, FRAME_00)
    if crash and _FRAME.search(found.text) and not _SYSTEM.search(found.text):
        return found
    while found.end + 1 < len(block):
        found = around(block, found.end + 1)
        text = bare(found.text).strip()
        if head == TRACEBACK and (text.startswith("---") or found.text[column:].startswith('File "')):
            break
        if crash and not _FRAME.search(text):
            break
        if crash and not _SYSTEM.search(text):
            return found
        if (head == TRACEBACK and found.text[column : column + 1].strip()) or (head in (CMAKE, CMAKE_IN) and text):
            return found
        if head in _OF_GRADLE and text.startswith("* "):
            return below
        nested = bare(below.text).lstrip().startswith(">")
        if head in _OF_GRADLE and text and nested and not text.startswith(">"):
            return below
        below = found if text else below
    return below if head in _OF_GRADLE else Found(below.start, below.end, "")


def _narrow(line: str) -> str:
    """Return a line that is not too long: of one that names a long C++ function before its error, the error."""
    at = line.rfind("error: ")
    return line[at : at + WIDTH] if len(line) > WIDTH and at > WIDTH // 2 else line[:WIDTH]


def _passage(block: bytes, start: int) -> str:
    """Return an error and the lines below it, without times and ids, and the last frame of a Python exception below those."""
    lines = block[start : start + PASSAGE].decode("utf-8", "replace").splitlines()[:PASSAGE_LINES]
    parts = [(prefix(line), line) for line in lines]
    shown = [f"{p.level} {p.tag}: {p.message}" if p.tag else p.message if p.level else bare(line) for p, line in parts]
    passage = "\n".join(_narrow(line).rstrip() for line in shown).strip()
    frame = block.rfind(b'File "', max(0, start - 800), start)
    if frame >= 0 and block.count(b"\n", frame, start) <= FRAME:
        code = (bare(line).strip() for line in block[frame:start].decode("utf-8", "replace").splitlines())
        passage += "\nraised in " + "\n".join(code)
    return passage


_VARIABLE = re.compile(
    r"\S*[/\\]\S*|\S+@\S+|\b0x[0-9a-fA-F]+\b|\b(?=\w*\d)[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b"
    r"|(?<![\w.])[-+]?\d[\d.,:]*(?:[kKMG]?i?B|ms|us|s|%)?(?!\w)|(?<=\w):\d+\]?"
)
_PYTEST = re.compile(r"^E\s{2,}")
_BREAK = re.compile(r"[\0\[\](){}<>\"“”‘’|;,=*│]+|(?<!\w)['`]+|['`]+(?!\w)|\s:\s|:{3,}")


def search_words(message: str) -> str:
    """Return what to search for: the longest phrases of a message, without paths, addresses, numbers and times."""
    runs = [
        " ".join(run.split()[:8])[:PHRASE].strip(" .:-")
        for run in _BREAK.split(_VARIABLE.sub("\0", _PYTEST.sub("", message[:WIDTH])))
    ]
    runs = [run for run in dict.fromkeys(runs) if sum(map(str.isalpha, run)) > 3]
    longest = sorted(runs, key=len, reverse=True)[:2]
    return " ".join(f'"{run}"' for run in runs if run in longest)
