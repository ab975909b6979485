"""Mails with rules beside them, as a user meets them: on versions where the mail alone conflicts, and in every verb that writes."""

from __future__ import annotations

import shutil
import types
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import process
from kz_build.rewrite import ast_grep
from tests.conftest import Kz
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import Project, copied, project, started, text

MODELS = 'MODELS = {\n    "one": load("one"),\n}\n'
GATE = text(5) + '# gate\nif(X MATCHES "a")\n' + text(5)
PATCH = {"models.py": MODELS.replace("}", '    "two": load("two"),\n}'), "new.txt": "new\n"}
GATED = {"gate.txt": GATE.replace("if(", "if(OURS AND ")}
REGISTER = """\
# Beside the first.
- file: models.py
  language: python
  rule: {pattern: {context: '{"one": $LOAD($_)}', selector: pair}}
  fix: |-
    "one": load("one"),
    "two": $LOAD("two")
"""
OPEN = """\
- file: gate.txt
  find: "# gate\\nif("
  replace: "# gate\\nif(OURS AND "
"""
RULES = "patches/l/up/0002-gate.rewrite.yaml"
NEEDED = pytest.mark.skipif(not shutil.which("ast-grep"), reason="ast-grep is not on PATH")


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two mails and their rules. At v2 upstream changed the lines around both, at v3 the gate is gone, at v4 upstream has ours."""
    upstream = started(tmp_path)
    upstream.commit("Models", {"models.py": MODELS, "gate.txt": GATE})
    upstream.git("tag", "-f", "v1")
    made = project(tmp_path, kz, upstream, [("register", PATCH), ("gate", GATED)])
    renamed, both = MODELS.replace("load(", "read("), GATE.replace('"a"', '"a|b"')
    upstream.commit("Change both (#2)", {"models.py": renamed, "gate.txt": both}, tag="v2")
    upstream.commit("Remove the gate (#3)", {"gate.txt": text(12)}, tag="v3")
    upstream.commit("Take ours (#4)", {"gate.txt": GATED["gate.txt"], "models.py": MODELS}, tag="v4")
    (made.root / RULES).write_text(OPEN)
    return made


def with_syntax(ours: Project) -> Project:
    (ours.root / "patches/l/up/0001-register.rewrite.yaml").write_text(REGISTER)
    return ours


def rows(ours: Project, *argv: str, code: int = 0) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = ours.json("verify", *argv, code=code)[0]["rows"]
    return found


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function after which this machine has no ast-grep."""

    def go() -> None:
        ast_grep._program.cache_clear()
        monkeypatch.setattr(ast_grep, "sys", types.SimpleNamespace(executable="/nowhere/python"))
        monkeypatch.setattr(process, "find", lambda name: "")

    yield go
    ast_grep._program.cache_clear()


@NEEDED
def test_rules_hold_where_their_mails_do_not_and_verdicts_are_judged_once(ours: Project, absent: Any) -> None:
    assert {j["verdict"] for j in rows(ours, "--onto", "v2", code=4)[0]} == {"content", "clean"}
    with_syntax(ours)
    own, later = rows(ours, "--onto", "v1", "--onto", "v2")
    assert [(j["verdict"], j["reason"]) for j in own] == [("clean", "")] * 2, "rules and mails agree on the pin"
    assert [j["verdict"] for j in later] == ["clean", "clean"]
    assert "0002-gate.rewrite.yaml makes it again, for the mail is of another version" in later[1]["reason"]
    shown = ours.kz("verify", "--onto", "v3")
    assert shown.returncode == 4
    assert "gate.txt: rule 1 of 0002-gate.rewrite.yaml (line 1) expects 1 match," in shown.stdout
    # The walk judges each commit: the gate goes at v3, and upstream has it at v4.
    register, gate = ours.json("history", "--onto", "main")[0]["patches"]
    assert not register["steps"] and [s["judgement"]["verdict"] for s in gate["steps"]] == ["content", "upstreamed"]
    absent()
    assert rows(ours, "--onto", "v1", "--onto", "v2") == [own, later], "no rule is run again"
    ours.upstream.commit("Another", {"models.py": MODELS + "\n"}, tag="v5")
    missing = ours.kz("verify", "--onto", "v5", "--fetch")
    assert missing.returncode == 6 and "pip install ast-grep-cli==0.51.1" in missing.stderr
    assert ours.kz("apply").returncode == 0, "a build needs the mails alone"


@NEEDED
def test_a_rebase_writes_the_mails_again_where_they_would_conflict(ours: Project) -> None:
    with_syntax(ours)
    done = ours.kz("rebase", "--onto", "v2", "--as", "m")
    assert done.returncode == 0, done.stderr
    assert "gate: 0002-gate.rewrite.yaml makes it again" in done.stdout
    stack = ours.root / "patches/m/up"
    assert (stack / "series").read_text() == "0001-register.patch\n0002-gate.patch\n", (
        "quilt and git am see mails alone"
    )
    assert '+    "two": read("two"),' in (stack / "0001-register.patch").read_text()
    assert (stack / "0001-register.rewrite.yaml").read_text() == REGISTER
    assert ours.kz("apply", "--line", "m").returncode == 0 and ours.kz("apply").returncode == 0
    assert ours.kz("verify", "--line", "m").returncode == 0 == ours.kz("verify").returncode
    # The folder is what format-patch would write: anybody's git makes the same tree of it.
    tree = ours.root.parent / "theirs"
    sh("git", "clone", "-q", str(ours.upstream.folder), str(tree), cwd=ours.root)
    sh("git", "checkout", "-q", "v2", cwd=tree)
    sh("git", "am", "-q", *map(str, sorted(stack.glob("*.patch"))), cwd=tree)
    locked = (ours.root / "pins.lock").read_text()
    assert sh("git", "rev-parse", "HEAD^{tree}", cwd=tree) in locked


PORT = GATE.replace("# gate", "# the port's gate").replace("line 5", "line 5 of more")


@pytest.fixture
def ported(ours: Project) -> Project:
    """At v6 upstream has the gate again, under another comment."""
    ours.upstream.git("checkout", "-q", "v3")
    ours.upstream.commit("Bring the gate back", {"gate.txt": PORT, "models.py": MODELS}, tag="v6")
    return ours


def test_a_rebase_that_stops_at_a_rule_goes_on_from_edited_rules(ported: Project) -> None:
    rules = ported.root / "out/rebase/l/up/gate.rewrite.yaml"
    stopped = ported.kz("rebase", "--onto", "v6", "--take-above", "0.01")
    assert stopped.returncode == 4, stopped.stderr
    for said in (
        "rule 1 of 0002-gate.rewrite.yaml (line 1) expects 1 match, and finds 0\n",
        '    nearest, at gate.txt:6:\n      # the port\'s gate\n      if(X MATCHES "a")\n',
        f"  edit its rules in {rules}: kz rebase continue then writes the mail from them\n",
        f"  -> edit {rules}, then kz rebase continue; or ",
    ):
        assert said in stopped.stderr, stopped.stderr
    rules.write_text(OPEN.replace("# gate", "# ports gate"))
    refused = ported.kz("rebase", "continue")
    assert refused.returncode == 4 and "its rules do not give a result yet:" in refused.stderr, refused.stderr
    assert "finds 0\n    nearest, at gate.txt:6:\n" in refused.stderr and str(rules) in refused.stderr
    rules.write_text(OPEN.replace("gate.txt", "gte.txt"))
    refused = ported.kz("rebase", "continue")
    assert refused.returncode == 2 and "the mail does not change gte.txt in place" in refused.stderr
    rules.write_text(rules_of("# the port's gate"))
    sh("git", "reset", "-q", "--hard", cwd=rules.with_name("tree"))  # where a kz is killed that takes them
    done = ported.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert "  gate: made again from its rules, as you edited them\n" in done.stdout
    assert (ported.root / RULES).read_text() == rules_of("# the port's gate")
    assert "+if(OURS AND X" in (ported.root / "patches/l/up/0002-gate.patch").read_text()
    assert ported.kz("verify").returncode == 0 == ported.kz("apply").returncode


def test_rules_follow_a_file_that_upstream_renamed_by_the_name_that_the_stop_says(ours: Project) -> None:
    moved = GATE.replace("line 3\n", "line three\n")
    ours.upstream.git("checkout", "-q", "--detach", "v1")
    ours.upstream.commit("Move the gate", {"gate.txt": None, "deep/door.txt": moved}, tag="v7")
    stopped = ours.kz("rebase", "--onto", "v7")
    assert stopped.returncode == 4 and "gate: gate.txt: renamed to deep/door.txt by" in stopped.stderr, stopped.stderr
    rules = ours.root / "out/rebase/l/up/gate.rewrite.yaml"
    rules.write_text("# still the old name\n" + OPEN)
    refused = ours.kz("rebase", "continue")
    assert "upstream renamed gate.txt to deep/door.txt: name that in the rules" in refused.stderr, refused.stderr
    rules.write_text(OPEN.replace("gate.txt", "deep/door.txt"))
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    patch = (ours.root / "patches/l/up/0002-gate.patch").read_text()
    assert "+++ b/deep/door.txt\n" in patch and "gate.txt" not in patch and "+if(OURS AND X" in patch
    assert ours.kz("verify").returncode == 0 == ours.kz("apply").returncode


def test_what_a_person_resolved_is_taken_and_the_rules_must_give_it(ported: Project) -> None:
    stopped = ported.kz("rebase", "--onto", "v6")
    assert stopped.returncode == 4 and "what you resolve by hand must be what its rules give" in stopped.stderr
    ours, tree = ported, ported.root / "out/rebase/l/up/tree"
    (tree / "gate.txt").write_text(PORT.replace("if(", "if(OURS AND "))
    sh("git", "add", "gate.txt", cwd=tree)
    refused = ours.kz("rebase", "continue")
    rules = ours.root / "out/rebase/l/up/gate.rewrite.yaml"
    assert refused.returncode == 4 and "their rules do not give the result" in refused.stderr, refused.stderr
    assert str(rules) in refused.stderr
    rules.write_text(rules_of("# the port's gate"))
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert ours.kz("verify").returncode == 0


def rules_of(comment: str) -> str:
    return OPEN.replace("# gate", comment)


def test_an_edit_of_the_commit_must_agree_with_the_rules_which_follow_their_mail(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = ours.root / "out/edit/l/up/tree"
    (tree / "gate.txt").write_text(GATE.replace("if(", "if(MINE AND "))
    sh("git", "commit", "-qam", "gate", "--amend", cwd=tree)
    refused = ours.kz("refresh", "up")
    rules = ours.root / "out/edit/l/up/gate.rewrite.yaml"
    assert refused.returncode == 4 and "makes something else of it than the mail" in refused.stderr, refused.stderr
    assert f"or the rules in {rules}" in refused.stderr
    rules.write_text(OPEN.replace("OURS", "MINE"))
    sh("git", "rebase", "-q", "--onto", "HEAD~2", "HEAD~1", cwd=tree)  # the first patch goes
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    stack = ours.root / "patches/l/up"
    assert sorted(p.name for p in stack.iterdir()) == ["0001-gate.patch", "0001-gate.rewrite.yaml", "series"]
    assert ours.kz("verify").returncode == 0
    rules.write_text("")
    assert ours.kz("refresh", "up").returncode == 0 and not list(stack.glob("*.rewrite.yaml"))


def test_rules_that_changed_are_named_on_the_pin_and_a_rebase_onto_it_writes_the_mail(ours: Project) -> None:
    (ours.root / RULES).write_text(OPEN.replace("OURS", "MINE"))
    shown = ours.kz("verify")
    assert shown.returncode == 4 and "makes something else of it than the mail" in " ".join(shown.stdout.split())
    done = ours.kz("rebase", "--onto", "v1")
    assert done.returncode == 0, done.stderr
    assert "+if(MINE AND X" in (ours.root / "patches/l/up/0002-gate.patch").read_text()
    assert ours.kz("verify").returncode == 0 == ours.kz("apply").returncode


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("- {file: gate.txt, find: a, replace: b, cuont: 2}\n- {file: x, find: '', replace: 1}\n", "did you mean count?"),
        ("- {file: ../x, find: a, replace: b}\n", ":1: climbs out of its folder"),
        ("- {file: b.txt, find: a, replace: b}\n", "the mail does not change b.txt in place"),
        ("- {file: gate.txt, find: a, replace: b, language: python}\n", "`language` does not go with `find`"),
        ("- {file: gate.txt, language: python, rule: {pattern: a}}\n", "`fix` is missing"),
        ("- {file: gate.txt, find: a, replace: b, count: true}\n", "`count` must be 1 to 1000"),
        ("gate.txt: a\n", "must be a list of 1 to 100 rules"),
    ],
)  # fmt: skip
def test_rules_that_are_wrong_are_named_with_file_and_line(ours: Project, rules: str, said: str) -> None:
    (ours.root / RULES).write_text(rules)
    done = ours.kz("apply")
    assert done.returncode == 2 and said in done.stderr and f"{RULES}:" in done.stderr, done.stderr


def test_rules_without_a_mail_are_refused(ours: Project) -> None:
    (ours.root / RULES).rename(ours.root / "patches/l/up/0003-other.rewrite.yaml")
    done = ours.kz("verify")
    assert done.returncode == 2 and "the series has no 0003-other.patch" in done.stderr
