"""The words by which a line of a log looks like an error, and how much it does."""

from __future__ import annotations

import re

from kz_build.diagnose.log_line import Prefix, is_prompt, prefix

EXIT = 4
"""The rank of lines that only say that something failed."""
TRACEBACK = b"Traceback (most recent"
GRADLE = b"What went wrong:"
TASK = b"Execution failed for task "
PROBLEM = b"A problem occurred "
CMAKE, CMAKE_IN = b"CMake Error at ", b"CMake Error in "
BACKTRACE, FRAME_0, FRAME_00 = b"backtrace:", b"#00 pc ", b"#00  pc "
TEXTS = frozenset((
    TRACEBACK, GRADLE, CMAKE, b"rror:", b"ERROR", b"xception", b"Fatal signal", b"fatal: ", b"terminate called",
    b"Abort message", b"Aborted", b"Segmentation fault", b"Assertion", b"undefined reference to", b" E ",
    b"E/", b"E 00:", b"E [Qnn", b"E [executorch:", b"E tokenizers:", b"nknown ", b"nrecognized ", b"rrorWith", b"FATAL", b"FAILED", b"ailed", b"annot ", b"CANNOT", b"xit code",
    b" *** ", b"not found", b"ould not ", b"rror occurred",
    b"No solution found", b"e: /", b"e: file:", b".kt: (", b"nvcc fatal", b"ultiple definition", b"uplicate symbol",
    b"Undefined symbol", b"GGML_ASSERT(", b"CONFLICT (", b"No space left", b"ermission denied", b"No such file",
    b"not recognized", b"Kernel panic", b"what():", BACKTRACE, b"[E:", b"nresolved reference", b"can not be used when", b"failed assertion", b"ld: library", b"exc.Unsupported", b"nductor.exc.",
    b"error loading model", b"rror response from", b"ERRO[", b"FATA[",
    TASK, PROBLEM, b"assert failed", b"nable to ", FRAME_0, FRAME_00, b"is not an object", b"xec format error", b"rror running link", b"rror while finding", b"rror[E", b"annot find module", b"no such module", b"npm ERR!", b"Check failed:", b"ld: unknown option", b"Unsupported: ", b"Library not loaded: ", b"NOTFOUND: ", b"exec container process",
    b"##[error]", b"unbound variable", b"parameter not set", b"the specified label", b"ubstitution", b"yntax error near",
    b"invalid argument to", b"in this build", b"double free", b"alloc(): ", b"free(): ", b"chunk(): ", b"corrupted size vs", b"corrupted double-linked", b"VK_ERROR_", b"vk::", b"CL_OUT_OF", b"CL_BUILD_",
    b"SSR Detected", b"detected ***", b"aemon disappeared", b"PANIC: ", b"[!] ", b" [rejected]", b" [remote rejected]", b"--explain E0",
    b"being used by another", b"Hunk #", b"schema_version ", b"of the Java Runtime (", b"imeoutExpired", b"nvariant Violation", b"ONNXRuntimeError]",
    b"DistributionNotFound: ", b"VersionConflict: ", b"NameNotFound: ", b"InvalidVersion: ", b"InvalidRequirement: ", b"MandatoryValue: ", b"ArchiveError(", b"was not found; run without",
    b"agreed to the Xcode", b"export failure", b"BrokenProcessPool: ",
    b"Timeout: ", b"LimitHit: ", b"BadZipFile: ", b"CxxCompiler: ", b"IncompleteRead: ", b"ptxas fatal", b"NVIDIA-SMI has", b"hardware instruction", b"not installed (set by",
    b"rror NETSDK", b"s missing in 'feeds'", b"odel cannot be NULL", b"] Broken pipe", b"yntax error: ", b"rror adding symbols", b"in generic ELF", b"will not fit in region", b"not a mach-o file", b"rchive has no ",
    b"rror C1", b"rror C2", b"rror C3", b"rror LNK", b"rror\tLNK", b"rror\tC", b"rror MSB", b"rror D8", b"rror : ", CMAKE_IN, b"too long", b"ndroid NDK: ", b"nvalid configuration", b"ersion mismatch error", b"lto object", b"of input file", b"relocation truncated",
    b"s incompatible", b"currently not installed", b"can be found in the", b"rror C4", b"rror C7", b"rror\tMSB", b"nvcc error", b"ptxas error", b"nvlink error", b"unsupported tapi",
    b"sed: ", b"tar: ", b"cp: ", b"mv: ", b"rm: ", b"ln: ", b"mkdir: ", b"chmod: ", b"chown: ", b"curl: (", b"wget: ", b"gpg: ", b"unzip: ", b"gzip: ", b"rsync: ", b"zsh: ", b"npm error ", b"aused by", b"is not a subtype of", "╰─▶".encode(), "× ".encode(), b"NoSuchKernel: ", b"InvalidDistribution: ", b"ResolvePackageNotFound", b"ScopeMismatch: ", b"APIRemovedInV1", b"Exceeded: ", b"Failure: ", b"terminating with ", b"[Errno ", b"of memory alloc", b"panicked at", b", but linking in ", b"ar: no archive", b"overflowed by", b"erminated abruptly", b"File already exists in", b"had errors.",
))  # fmt: skip
"""What a line must contain to be looked at: plain texts, for only those are fast."""

_EXCEPTION = re.compile(
    r"^(?:E\s{2,}|\[?rank\d+\]?:\s*|[|│]\s*|(?:→ )?Caused by: |Unhandled Exception: |Fatal Exception: |Exception in thread \"[^\"]*\" |Pending exception )*"
    r"(?:(?:[\w$]+\.)*(?:[A-Z][\w$]*(?:Error|Exception|Interrupt|Exit|Exceeded|Failure|LimitHit)|TimeoutExpired|DistributionNotFound|\w*VersionConflict|EnvironmentNameNotFound|InvalidVersion|InvalidRequirement|InvalidDistribution|NoSuchKernel|ResolvePackageNotFound|ScopeMismatch|APIRemovedInV1|MissingMandatoryValue|(?:Read|Connect|Write|Pool)Timeout|IncompleteRead|BadZipFile)\b(?::|\s*$)|InvalidArchiveError\(|(?:[a-z_]\w*\.){2,}[A-Z]\w+: |Exception: |Abort message: |Unsupported: )"
)
_FATAL = re.compile(
    r"Fatal signal \d+|^Abort message: |terminate called |terminating (?:due to|with) |^what\(\):  |Assertion .*failed"
    r"|[Aa]ssert(?:ion)? failed|\bpanic: |\] Check failed \(|GGML_ASSERT\("
)
_ERROR = re.compile(
    r"^(?:ERRO|FATA)\[\d+\] |\b(?:fatal error|[Ee]rror|ERROR)(?: \w+){0,3} ?:(?: |$)|\berror\[E\d|^Error\t(?:LNK|C)\d{4}\t|^ninja: fatal: |^Error:(?:\w|\(\d+)|\[E:\w+|can not be used when |Error while finding module |not found for architecture |\[ ?ERROR ?\]|\[E\]|<E>|\] \[E |^ERROR\b|^CMake Error\b|^FATAL\b|undefined (?:reference to|symbol)"
    r"|Undefined symbol: |^Undefined symbols for |exec user process caused|exec container process|Library not loaded: |-NOTFOUND: |loading shared libraries: |nvcc fatal\s*:|No solution found when|^e: |^fatal: |is not an object|incompatible target|xec format error|Error running link command|multiple definition of |duplicate symbol|^CONFLICT \("
    r"|No space left on device|^ld: |\*\*\* No (?:rule|targets) |\*\*\* missing separator|\*\*\* \S+: |\*\*\* .*\. +Stop\."
)
_SAID = re.compile(
    r"^(?![\w.+-]+: not found$)(?:[\w./+\[\]-]+: )+(?:line \d+: |\d+: )?(?:\S+: )?(?:[Cc]ommand )?not found$|unbound variable$|parameter (?:null or )?not set$|matching the specified labels?|##\[error\](?!Process completed)|[Bb]ad substitution|yntax error near"
    r"|\[\[: not found|: invalid argument to -|provider is not (?:supported|enabled) in this build|double free or|(?:malloc|free|realloc|munmap_chunk)\(\): |^corrupted (?:size vs|double-linked)|VK_ERROR_(?:OUT_OF|DEVICE_LOST|INITIAL|UNKNOWN)|\bvk::\S+: Error"
    r"|Argument list too long|(?:command line|filename or extension) is too long\.?$|^Android NDK: (?!WARNING|INFO| )|^Invalid configuration [`'‘]|^libtool: Version mismatch error|: plugin needed to handle lto object|architecture of input file|: [Ff]ile format not recognized|relocation truncated to fit"
    r"|out of memory allocating|region [`'].* overflowed by |\bar: no archive members|' panicked at |^Server terminated abruptly|^\[libprotobuf (?:FATAL|ERROR) |\.proto(?::\d+:\d+)?: (?:Import \"|File not found|File does not reside)|: program not found or is not executable"
    r"|CL_(?:OUT_OF|BUILD)_|SSR Detected|\*\*\* .* detected \*\*\*|^PANIC: |\[(?:remote )?rejected\]|used by another process|^Hunk #\d+ FAILED|Invariant Violation: |\] Broken pipe$|yntax error: unexpected|model cannot be NULL|Relocations in generic ELF|^(?:In \S+, )?[Bb]uilding for .{2,30}, but linking in (?:object|dylib|\.tbd)|will not fit in region [`']|not a mach-o file|rchive has no (?:index|table)"
    r"|command not found: \S+$|^(?:sed|tar|cp|mv|rm|ln|mkdir|chmod|chown|curl|wget|gpg|unzip|gzip|rsync|zsh): (?!warning|Warning|Removing|Ignoring|\S+:$)|^npm (?:ERR!|error) (?!code|A complete log|errno |syscall |path )|^(?:(?:Unhandled Exception: )?type '[^']+' is not a subtype of)|^RangeError \(|^\s*(?:× |╰─▶ )|nv(?:cc|link) error\s*:|^ptxas error\s*:|^Command '[^']+' not found\b|^The program '[^']+' (?:is currently not installed|can be found in)|\brequires [^\n]{1,200}, but you have [^\n]{1,100} which is incompatible|^\[Errno \d+\] "
    r"|^error\[E0554\]|^ptxas fatal|^NVIDIA-SMI has failed|: illegal hardware instruction |^[\w .]+: export failure[ :]|^You have not agreed to the Xcode |^pyenv: version `|is not recognized as (?:the|a) name of a cmdlet|^Python was not found; run without |^\[!\] (?:CocoaPods could not|Unable to find a|No podspec|Invalid `Podfile|Error installing)"
)
"""Errors that no word of _ERROR marks."""
_FAILED = re.compile(
    r"\b[Ff]ailed(?: to| with|:)|^Could not \w+|\b[Ee]rror occurred while|^E: |\b[Uu]nable to |\b[Cc]annot \w+|^CANNOT|\bFAILED\b|(?:[Cc]ommand|: \d+: (?:\S+: )?\S+:) not found$"
    r"|: (?:Permission denied|No such file or directory)|is not recognized as an |^(?:[\w./+-]+: )?(?:[Uu]nknown|[Uu]nrecognized|Invalid|Unsupported) (?:[\w-]+ ){0,3}(?:option|argument|parameter|key|command)"
)
_FOLLOWS = re.compile(
    r"^(?:E\s+)?(?:subprocess\.)?CalledProcessError: (?!.*died with)|subprocess-exited-with-error|metadata-generation-failed|[Ff]ailed (?:building|to build) "
    r"|Could not build wheels|ninja: build stopped|ninja: error: rebuilding '[^']*': subcommand failed|(?:Build|CMake|Each) step for \S+ failed|execute_process failed command indexes|^The (?:C|CXX|CUDA|ASM|OBJC|OBJCXX|Swift|Fortran) compiler$|^set_property could not find TARGET|[Cc]an(?:not| not) determine link(?:er)? language for target|configure: error: in [`']|^autoreconf: (?:error: )?.*failed with exit status|Analysis of target '.*' failed; build aborted|: (?:C\+\+ c|C|Linking |Genrule )(?:ompilation)?(?: of rule)? .*failed \(Exit|An error occurred during the fetch of repository|error: could not compile `|^ERROR: .*: Error in (?:build|package)\(\) method|ConanException: Error \d+ while executing|fatal error LNK(?:1120|1169)|\*\*\* Android NDK: Aborting|^Android NDK: Aborting|configure_file Problem configuring file|CMake Error: Generator: |ld returned \d|error: linking with |[Ll]inker command failed|error building at STEP|error: command '.*' failed with exit"
    r"|RuntimeError: Error (?:compiling objects for|building) extension|Process '.*' finished with non-zero|did not run successfully\.?$|^CreateCondaEnvironmentException: |Build command failed\.|Conan install failed=|[Cc]ompilation (?:error|failed)[.;] [Ss]ee"
    r"|\bdo_\w+: (?:Command Error: |Function failed: |Execution of |Fatal QA errors|ExecutionError)|^ERROR: Logfile of failure stored|^error: Failed to merge in the changes"
    r"|fatal: clone of .* into submodule path|fatal: Could not read from remote repository|Configuring incomplete|Execution failed for task"
    r"|Error: Command failed: |Incompatible classes were found in dependencies|ProcessException: |^FAILED: (?:\[code=\d+\] )?\S+\.\w+|recipe for target .* failed|ChildFailedError|See above for output|remote end hung up unexpectedly$|^Unable to checkout |source list generation failed|pip's dependency resolver does not currently|failed: \(Exit \d+\)|^Error generating(?: file)?$"
)
"""Lines that only say that a step failed whose own error stands before them."""
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[: ]+(?!0\b)-?\d+\s*\.?$|exit code:? [1-9]|non-zero exit|\*\*\* \["
    r"|B(?:UILD FAILED|uild failed)|build stopped|Segmentation fault|\bAborted\b|core dumped"
)
_ORDINARY = re.compile(
    r"(?i)\b(?:0|no|without|ignor\w+|zero) (?:\w+ )?(?:errors?|failures?|exceptions?|failed)\b"
    r"|\b(?:errors?|failed|failures?|error[_ ]code|status)\s*[=:]?\s*(?:0x0+|0|none|null|ok|false)\b|^\W*(?:\w*warning|info|debug|note)\b|^\[[WI]\d{4} "
    r"|QnnBackend_validateOpConfig failed|Failed to validate op |has incorrect (?:Rank|Value|Datatype)|^-- |^Deprecated Gradle features were used|^\d+ packages? ha(?:s|ve) newer versions incompatible|\w+Warning: |: warning: |: note: |^[+$] "
    r"|\bconftest\.c\w*:|/(?:CMakeTmp|CMakeScratch)/(?!.*testC\w*Compiler)|\bCheck(?:FunctionExists|SymbolExists|IncludeFiles?)\.c\w*:|^(?:# ?)?(?:If|When|In case) (?:you|it|this|that|the)\b"
    r"|^(?:find|du|grep|rg): .*: (?:Permission denied|No such file or directory|Is a directory)$|\.\.\. (?:ok|passed)$"
)
_CODE = re.compile(
    r"^(?:at |\.\.\. |raise |throw |except |return |import |from |#\d+ (?!\d+\.\d+ )|//|\^|File \"|>>> |f['\"]|\w+ = )|pc [0-9a-f]{8}"
    r"|^(?:[^:\n]{0,200}\becho ['\"]|-{1,2}[A-Za-z][\w-]*(?:[ =][A-Z<\[]\S*)?\s{2,}\S|(?:[-*+] )?Fix(?:es|ed)? |message\((?:FATAL|SEND)_ERROR |# ?error\b|\[ -|HEAD is now at |Previous HEAD position was |Applying: |Saved working directory and |\[[^\s\]]{1,80} [0-9a-f]{7,12}\] |(?:[*|\\] )*(?=[a-f]{0,11}\d)[0-9a-f]{7,12} (?:\([^()\n]{1,80}\) )?[A-Z][a-z']+ )"
)
_LESS = re.compile(r"(?i)^[WIDV][ /]|\bwarn(?:ing)?\b")
_NAMES = re.compile(
    r"(?i)executorch|qnn|htp|fastrpc|adsprpc|cdsp|tokenizers|xnnpack|vulkan|androidruntime|linker|etlogging|llama|litert|tflite|genie|snpe"
)
_UNRELATED_TAGS = frozenset({"DEBUG", "audit", "tombstoned", "crash_dump64"})
_SERVICES = re.compile(
    r"(?i)^(?:gms|google|firebase|fa(?:-\w+)?$|crashlytics|finsky|ads$|chromium$|volley$|dynamite|phenotype|clearcut|sqlitelog$)"
)
"""Tags of Google's services, whose exceptions stand in nearly every log of a device and hinder no app."""

STACKS = "System.err"
"""The tag under which Android shows the exceptions that Java code prints, as warnings."""


def rank(line: str) -> int:
    """Return how likely a line is the error: 0 is the best, -1 is no error at all."""
    level, tag, message = prefix(line)
    if is_prompt(line):
        return -1
    if not message or _CODE.search(message) or tag in _UNRELATED_TAGS and not _FATAL.search(message):
        return -1
    if _FOLLOWS.search(message):
        return EXIT
    less = _is_less(level)
    if _EXCEPTION.match(message):
        return 3 if _SERVICES.match(tag) or less and tag != STACKS else 0
    if less or _ORDINARY.search(message):
        return -1
    if _FATAL.search(message):
        return 0
    return _lesser(Prefix(level, tag, message))


_GOES_ON = re.compile(
    r"(?i)\b(?:ignoring|skipping|delaying|retrying|falling back|(?:download|try)ing (?:it )?again|is recommended|(?:going on|building) without)\b"
    r"|^\s*[✓✔√]|^\s+-{1,2}[a-z]|^(?:please|enter|choose|select)\b.*:\s*$"
)
"""What a program says that goes on, waits for an answer, lists its options, or passed a test."""


def goes_on(line: str) -> bool:
    """Return whether a line that no word marks as an error says that its program goes on."""
    return bool(_GOES_ON.search(line))


def is_warning(line: str) -> bool:
    """Return whether a line calls itself a warning."""
    return bool(_LESS.search(line))


def _is_less(level: str) -> bool:
    """Return whether a level of logcat is less than an error."""
    return bool(level) and level not in "EFA"


def is_ordinary(line: str) -> bool:
    """Return whether a line is code, a command, or one that its program calls less than an error."""
    level, _, message = prefix(line)
    less = _is_less(level) or is_warning(line)
    return is_prompt(line) or less or bool(_CODE.search(message) or _ORDINARY.search(message))


def _lesser(line: Prefix) -> int:
    known = bool(_NAMES.search(line.tag or line.message))
    if line.level:
        return 1 if known or line.level != "E" else 3
    if _ERROR.search(line.message) or _SAID.search(line.message):
        return 1 if not _EXIT.search(line.message) else 4
    if _EXIT.search(line.message):
        return 4
    return 2 if _FAILED.search(line.message) else -1


BARE_REASON = re.compile(r"^[\w.-]+: [A-Z][a-z ]+\.?$")
"""A program and the system's reason, without what it did."""
ENDS_WELL = re.compile(
    r"^BUILD SUCCESSFUL|Build succeeded|\bSuccessfully (?:installed|built) |^=+ (?!.*\b(?:failed|errors?)\b).*\b\d+ passed\b|^OK(?: \(|$)"
    r"|^\[100%\] Built target|^100% tests passed|^PASS$|^-- (?:Build files have been|Installing: )|exit(?:ed with)? (?:code|status):? 0\b|^\[ +PASSED +\]|\bexecuted successfully\b"
    r"|^test result: ok\b|^ok\s+\S+\s+[\d.]+s$|^config\.status: (?:creating|executing) |^\*\* BUILD SUCCEEDED \*\*|^Tests: +(?:\d+ skipped, )?\d+ passed, \d+ total"
)
"""Words of success: a log that has them in its last lines, and no error behind them, ends well."""
_REASON = re.compile(
    r"(?:Permission denied|No such file or directory|No space left on device|Operation not permitted|Read-only file system|Is a directory"
    r"|Address already in use|Connection refused|Cannot allocate memory|[Rr]esource busy|timed out|not permitted|in use)\)?(?: at \S+ line \d+)?\.?$|^(?:[\w./+-]+: [Uu]n(?:known|recognized) |(?:\w+ ){1,4}failed: )"
    r"|^(?:Could not|Cannot|Can't|Unable to|Failed to) (?:find|resolve|locate) (?!.*\b(?:skip|ignor|fall|us(?:e|ing)\b|default|instead|continu|option|disabl|will\b|retry))"
)


def speaks(rank: int, line: str) -> bool:
    """Return whether an error's own words may be taken for the cause.

    Those of Android's services may not: they tell many errors that hinder nothing. A line that has no mark of an error must end with
    the system's reason, or begin with what failed or is not found.
    """
    level, tag, message = prefix(line)
    if rank == 0:
        return level in ("", *"EFA")
    return not (level and tag) and (rank == 1 or (rank == 2 and bool(_REASON.search(message))))
