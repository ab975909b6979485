"""Stacks whose files cannot be read."""

from __future__ import annotations

import pytest

from kz_build.core.errors import ConfigError
from kz_build.core.yaml_lines import MOST_BYTES
from kz_build.stack.files import StackFiles
from kz_build.stack.parse import parse_stack

MAIL = b"""From: A <a@example.org>
Date: Mon, 1 Jan 2024 00:00:00 +0000
Subject: [PATCH] first

---
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-a
+b
"""


def test_a_patch_with_rules_that_are_too_long_is_not_left_out() -> None:
    files = {"0001-first.patch": MAIL, "0001-first.rewrite.yaml": b"#" * (MOST_BYTES + 1)}
    with pytest.raises(ConfigError, match="bytes; at most"):
        parse_stack(StackFiles("l", "up", "patches/l/up", ("0001-first.patch",), files, "digest"))
