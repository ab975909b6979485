"""The verbs that write, each with the function that prepares its project."""

from __future__ import annotations

from tests.faults import build_cases, stack_cases
from tests.faults.world import Case

CASES: dict[str, Case] = {
    "lock": stack_cases.lock,
    "fetch": stack_cases.fetch,
    "apply": stack_cases.apply,
    "edit": stack_cases.edit,
    "refresh": stack_cases.refresh,
    "rebase": stack_cases.rebase,
    "rebase-conflict": stack_cases.rebase_conflict,
    "rebase-continue": stack_cases.rebase_continue,
    "rebase-skip": stack_cases.rebase_skip,
    "rebase-abort": stack_cases.rebase_abort,
    "import-pr": stack_cases.import_pr,
    "import-pr-conflict": stack_cases.import_pr_conflict,
    "import-pr-continue": stack_cases.import_pr_continue,
    "store-gc": stack_cases.store_gc,
    "build": build_cases.build,
    "build-again": build_cases.build_again,
    "wheel": build_cases.wheel,
    "package": build_cases.package,
    "env": build_cases.env,
    "export": build_cases.export,
    "report": build_cases.report,
    "device-push": build_cases.device_push,
}
