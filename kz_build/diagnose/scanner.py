"""A scanner that looks for signatures in a log, block by block, in memory that does not grow with it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from kz_build.diagnose.consequences import with_consequences
from kz_build.diagnose.error_lines import Candidate, ErrorLines, is_handled, stops_nothing
from kz_build.diagnose.error_words import BARE_REASON, ENDS_WELL, STAYS, rank
from kz_build.diagnose.families import compiled, general
from kz_build.diagnose.line_forms import FormSearch
from kz_build.diagnose.log_line import PROMPTS, around, is_prompt, is_raise, trimmed, typed, usual
from kz_build.diagnose.quotation import QUOTED, quoted, unmarked
from kz_build.diagnose.signature import PLACE, ErrorLine, Finding, Signature, filled
from kz_build.diagnose.wrapped_error import unframed

LIMIT = 1000
"""Lines after which a signature is no longer counted."""
SESSION = 20_000
"""Lines at the head of a log in which commands are told apart: a longer log is of one command."""
MOST_POSSIBLE = 3
"""Families that are offered where none is sure."""
TAIL, LAST = 2000, 5
"""Bytes at the end of a log that are kept, and the lines among them that tell whether it ends well."""
_MILD = re.compile(r"(?i)\bwarn(?:ing)?\b|\bretry|^W[ /]|\sW\s")
_WARNED = re.compile(
    r"(?i)^(?!.*qnn).*?(?:\b(?:[A-Z]\w{1,30})?warn(?:ing)?:|##\[warning\]|\bretrying\b|\bwill retry\b)"
    r"|^(?:npm |pnpm |yarn )?warn(?:ing)? (?=\S)"
    r"|^(?:#\d+ [\d.]+ )?W: (?!Failed to fetch \S{1,300}\s{1,4}404)"
    r"|^(?:\S{1,20} ){0,3}(?:chown|chmod|chgrp|setfacl|rmdir|rm|cp|tar|usermod|useradd|groupadd|adduser): (?!.*[Nn]o space left)"
)
"""Lines after which a program or script mostly goes on: warnings, retries, and what the small programs of a script could not do.

apt writes W: too before a list that the server does not have, though it ends with an error for it.
"""
_EXCEPTION = re.compile(r"^[\w.]+(?:Error|Exception): ")
"""An exception of Python below its traceback: the next line may say that the program goes on without what failed."""


class Scanner:
    """Feed it blocks that end at line ends, then ask `found`."""

    def __init__(self, signatures: Iterable[Signature]) -> None:
        self.lines = 0
        self._all = tuple(signatures)
        self._wanted: dict[bytes, list[Signature]] = {}
        for one in self._all:
            for text in one.find:
                self._wanted.setdefault(text.encode(), []).append(one)
        self._families = tuple(one for one in self._all if one.family or one.sentence)
        self._sentences = tuple(one for one in self._all if one.sentence)
        self._tail = b""
        self._first: dict[str, tuple[int, str, dict[str, str]]] = {}
        self._times: dict[str, int] = {}
        self._here: set[tuple[str, int]] = set()
        self._errors = ErrorLines()
        self._claimed = False
        self._commands: list[tuple[int, str]] = []
        self._possible: list[str] = []
        self._mild = False
        self._handled: set[str] = set()
        self._held = False
        self._texts: frozenset[bytes] = frozenset()
        self._search = FormSearch()
        self._choose_texts()

    def _choose_texts(self) -> None:
        """Search only for texts that can still tell something."""
        texts = frozenset(self._wanted) | self._errors.texts
        if texts != self._texts:
            self._texts = texts
            self._search.choose(texts)

    def feed(self, block: bytes) -> None:
        """Search one block."""
        self._here.clear()
        block = unmarked(block)
        for text, at in self._search.hits(block):
            self._line(block, text, at)
            self._errors.look(block, self.lines, text, at)
        self._errors.trim()
        if self._claimed and self.lines > SESSION:
            self._errors.stop()  # they are for logs, or commands before it, in which no cause is found
        self._note_commands(block)
        self._choose_texts()
        self.lines += block.count(b"\n")
        self._tail = (self._tail + block)[-TAIL:]

    def _note_commands(self, block: bytes) -> None:
        """Note the lines in which a person or a script starts a command: each has errors of its own."""
        for text in PROMPTS if self.lines < SESSION else ():
            at = block.find(text)
            while at >= 0:
                line = around(block, at)
                if command := typed(line.text):
                    self._commands.append((self.lines + block.count(b"\n", 0, line.start) + 1, command))
                at = block.find(text, max(line.end, at + 1))
        self._commands.sort()

    def _command(self, line: int) -> int:
        """Return which command of the log a line is of: 0 before the first prompt."""
        return bisect_right(self._commands, (line, "\U0010ffff"))

    def _runs_again(self, command: int) -> bool:
        """Return whether the same command is started once more later: what failed in it was fixed, or was not what ends the log."""
        return command > 0 and any(text == self._commands[command - 1][1] for _, text in self._commands[command:])

    def _line(self, block: bytes, text: bytes, at: int) -> None:
        """Check the line around a text."""
        if text not in self._wanted:
            return
        (_, end, shown), number, gone_on = around(block, at), -1, False
        for one in self._wanted.get(text, ()):
            match = compiled(one.match).search(usual(shown)) if one.match else None
            if not match and "^" in one.match and (message := unframed(shown)):
                match = compiled(one.match).search(message)
            if one.match and not match:
                continue
            if number < 0:
                if is_prompt(shown) or is_raise(shown) or stops_nothing(block, end):
                    return  # what a command itself quotes is no error
                gone_on = bool(_EXCEPTION.match(shown)) and is_handled(block, end)
                number = self.lines + block.count(b"\n", 0, at) + 1
            if (one.id, number) not in self._here:
                self._note(
                    one, number, shown, {k: v or "" for k, v in match.groupdict().items()} if match else {}, gone_on
                )

    def _note(self, one: Signature, number: int, shown: str, groups: dict[str, str], gone_on: bool = False) -> None:
        self._here.add((one.id, number))
        if not (one.harmless or one.consequence or one.possible or one.id in self._possible):
            if gone_on:
                self._handled.add(one.id)
            if self._is_mild(one, shown):
                self._mild = True
            else:
                self._claimed = True
        self._times[one.id] = self._times.get(one.id, 0) + 1
        if one.id not in self._first or number < self._first[one.id][0]:
            self._first[one.id] = (number, trimmed(shown, one.find), groups)
        if self._times[one.id] >= LIMIT:
            kept = {text: [w for w in wanted if w.id != one.id] for text, wanted in self._wanted.items()}
            self._wanted = {text: wanted for text, wanted in kept.items() if wanted}

    def _is_mild(self, one: Signature, text: str) -> bool:
        """Return whether a program mostly goes on after this, or says that it did."""
        return one.warning or one.id in self._handled or bool(_WARNED.search(text))

    def add(self, later: Scanner) -> None:
        """Add the findings of another scanner in the part of the log after this one's."""
        for id, (number, text, groups) in later._first.items():
            self._first.setdefault(id, (number + self.lines, text, groups))
            self._times[id] = min(LIMIT, self._times.get(id, 0) + later._times[id])
        self._errors.add(later._errors, self.lines)
        self._claimed |= later._claimed
        self._mild |= later._mild
        self._handled |= later._handled
        self._commands += [(line + self.lines, text) for line, text in later._commands]
        self.lines += later.lines
        self._tail = (self._tail + later._tail)[-TAIL:]

    def found(self) -> tuple[Finding, ...]:
        """Return all findings: causes in the order of the log, each before what follows from it, then what is only possible; harmless last.

        A line that has a cause is not said to be harmless or a consequence too.
        """
        self._hold_families()
        by_id = {one.id: one for one in self._all}
        if self._ends_well():
            # What was a warning, or was tried again, hindered nothing then.
            # So did what no word marks as an error: a refused connection in a test, a file that a script could not change.
            mild = (
                id
                for id, (_, text, _) in self._first.items()
                if (_MILD.search(text) or not 0 <= rank(text) <= 1) and not by_id[id].harmless
            )
            self._possible += [id for id in mild if id not in self._possible]
        self._possible += self._passed(by_id)
        weak = {one.id for one in self._all if one.harmless or one.consequence or one.possible}.union(self._possible)
        taken = {number for id, (number, *_) in self._first.items() if id not in weak}
        kept = [id for id, (number, *_) in self._first.items() if not (id in weak and number in taken)]
        order = sorted(kept, key=lambda id: (by_id[id].harmless, self._first[id][0], id))
        possible = [*self._possible, *(id for id in order if by_id[id].possible)]
        placed = with_consequences([by_id[id] for id in order], possible, set(self._possible))
        return tuple(self._finding(by_id[id], follows, id in possible) for id, follows in placed)

    def _passed(self, by_id: dict[str, Signature]) -> list[str]:
        """Return the warnings and retries beside which a cause is known that does not follow from any of them: they are only possible."""
        shown = {id: text for id, (_, text, _) in self._first.items() if id not in self._possible}
        named = [id for id in shown if not (by_id[id].harmless or by_id[id].possible)]
        mild = {id for id in named if self._is_mild(by_id[id], shown[id])}
        firm = {id for id in named if id not in mild and not by_id[id].consequence}
        behind = {id: firm.intersection(by_id[id].explains) for id in mild}
        if not firm.difference(*behind.values()):
            return []
        return sorted((id for id in mild if not behind[id]), key=lambda id: (self._first[id][0], id))

    def error_lines(self) -> tuple[ErrorLine, ...]:
        """Return the lines that look like the error, if no signature says what went wrong; none that is known to be harmless."""
        self._hold_families()
        lines: dict[int, ErrorLine] = {}
        for one in () if self._claimed else self._candidates():
            lines.setdefault(one.line.line, one.line)
        return tuple(lines.values())

    def _candidates(self) -> tuple[Candidate, ...]:
        """Return the lines that look like the error, the best first: those of the first command that fails before all others."""
        known = {number for number, *_ in self._first.values()}
        best = list(self._errors.best())
        if self.lines <= QUOTED and (not best or self.lines == 1):
            best += quoted(self._tail.decode("utf-8", "replace").splitlines())
        best = [one for one in best if one.line.line not in known]
        failed = {self._command(one.line.line) for one in best if one.rank <= 1}
        first = min({one for one in failed if not self._runs_again(one)} or failed, default=0)
        return tuple(sorted(best, key=lambda one: self._command(one.line.line) != first))

    def _ends_well(self) -> bool:
        """Return whether the log's last lines say that all went well, no error stands behind that, and nothing before it stays wrong."""
        last = self._tail.decode("utf-8", "replace").split("\n")[-LAST:]
        well = max((number for number, line in enumerate(last) if ENDS_WELL.search(line)), default=LAST)
        behind = any(0 <= rank(line) <= 1 or line.startswith("[  FAILED") for line in last[well + 1 :])
        return well < LAST and not behind and not any(STAYS.search(line) for line in last[:well])

    def _hold_families(self) -> None:
        """Note the families of the errors; there are none in a log that ends well."""
        if self._held:
            return
        self._held = True
        if self._claimed:
            self._hold_earlier()
            self._hold_later()
            return
        if self._ends_well():
            return
        candidates = self._candidates()
        if self._mild:
            self._hold_behind_warnings(candidates)
            return
        for place, candidate in enumerate(candidates):
            likeliest = candidate.line.line == candidates[0].line.line  # a quoted line is several candidates
            one, groups = general(candidate, self._families)
            if place == 0 and (not one or one.possible):
                # The system's bare reason right beside an error that gives none is its reason: "exec: Permission denied".
                for beside in candidates[1:]:
                    near = abs(beside.line.line - candidate.line.line) == 1
                    reason = near and BARE_REASON.search(beside.line.text) and general(beside, self._sentences)
                    if reason and reason[0] and not reason[0].possible:
                        candidate, (one, groups) = beside, reason
                        break
            if one and one.id not in self._possible:
                if not likeliest or one.possible:
                    self._possible.append(one.id)
                self._note(one, candidate.line.line, candidate.line.text, groups)
            if likeliest and self._mild and not self._claimed:
                self._hold_behind_warnings(tuple(one for one in candidates[place + 1 :] if one.rank <= 1))
                return
            if self._claimed or len(self._possible) == MOST_POSSIBLE:
                return

    def _hold_behind_warnings(self, candidates: tuple[Candidate, ...]) -> None:
        """Note the family of the likeliest error, if it tells why, where only warnings, retries and handled exceptions were recognised: then those are only possible."""
        self._claimed = True
        firm = [one for one in candidates if one.rank <= 1]
        self._possible += [
            id for id in sorted(self._handled) if any(one.line.line > self._first[id][0] for one in firm)
        ]
        for candidate in firm:
            one, groups = general(candidate, self._families)
            if one and one.warning:
                self._note(one, candidate.line.line, candidate.line.text, groups)
                continue
            if one and not one.possible:
                sure = {one.id: one for one in self._all if not (one.harmless or one.consequence or one.possible)}
                first = ((sure[id], text) for id, (_, text, _) in self._first.items() if id in sure)
                self._possible += [one.id for one, text in first if self._is_mild(one, text)]
                self._note(one, candidate.line.line, candidate.line.text, groups)
            return

    def _hold_earlier(self) -> None:
        """Note the family of an error in a command before the one whose cause is known, if it tells why: the first command that fails decides."""
        weak = {one.id for one in self._all if one.harmless or one.consequence or one.possible}
        claim = min(number for id, (number, *_) in self._first.items() if id not in weak)
        for candidate in self._candidates():
            command = self._command(candidate.line.line)
            if candidate.rank <= 1 and command < self._command(claim) and not self._runs_again(command):
                one, groups = general(candidate, self._families)
                if one and not one.possible:
                    self._note(one, candidate.line.line, candidate.line.text, groups)
                return

    def _hold_later(self) -> None:
        """Make causes in a command that is started again only possible if another error follows, and note the family of that."""
        weak = {one.id for one in self._all if one.harmless or one.consequence or one.possible}
        claims = {id: self._command(n) for id, (n, *_) in self._first.items() if id not in weak}
        fixed = {id for id, command in claims.items() if self._times[id] == 1 and self._runs_again(command)}
        if not fixed:
            return
        after = max(claims.values())
        later = next((c for c in self._candidates() if c.rank <= 1 and self._command(c.line.line) > after), None)
        if fixed == set(claims) and not later:
            return
        self._possible += [id for id in fixed if id not in self._possible]
        one, groups = general(later, self._families) if later and fixed == set(claims) else (None, {})
        if later and one and not one.possible and one.id not in self._first:
            self._note(one, later.line.line, later.line.text, groups)

    def _finding(self, one: Signature, follows: str, possible: bool) -> Finding:
        number, text, groups = self._first[one.id]
        times = self._times[one.id]

        def say(template: str) -> str:
            said = " ".join(PLACE.sub(lambda place: filled(place, groups), template).split())
            return said.replace(" ()", "").rstrip(" :")  # what stands in brackets may not be in every form of a line

        addresses = tuple(dict.fromkeys(seen.at for seen in one.seen if seen.at))
        return Finding(
            one.id,
            say(one.title),
            number,
            text,
            times,
            times >= LIMIT,
            say(one.cause),
            tuple(say(reason) for reason in one.reasons),
            say(one.next),
            addresses,
            follows,
            one.harmless,
            possible and not follows,
        )
