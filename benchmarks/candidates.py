"""kz's candidates against what maintainers made of the same conflicts.

    python benchmarks/candidates.py CASES... [--half tuned|held] [--fit | --cross]

Each folder of CASES has cases at any depth: a folder with case.json, old.patch, new.patch and the files in base/ (before the old
patch), theirs/ (after it), ours/ (the newer upstream) and truth/ (with the maintainers' own new patch). A case is *kept* if the
new patch adds no line that the old one does not add, else *changed*. Its package is its first folder; the hash of that name
decides in which half it is. `--fit` prints the constants of kz_build/resolve/confidence.py; `--cross` scores each
tenth of the packages by a fit that did not see it.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kz_build.resolve.candidate import likely, made_candidates
from kz_build.resolve.confidence import FEATURES, OFFERED, confidence


class Try(NamedTuple):
    """The candidates for one case: the features of each, and whether it is what the maintainers made."""

    package: str
    patch: str
    kept: bool
    rules: tuple[str, ...]
    features: tuple[tuple[float, ...], ...]
    right: tuple[bool, ...]
    confidences: tuple[float, ...]
    changes: tuple[bool, ...]
    """Whether each changes anything; one that does not is never shown."""
    offered: bool
    """Whether they are shown as likely; else they are shown as possible."""
    seconds: float

    @property
    def shown_right(self) -> bool:
        """Whether one of those that are shown is right."""
        return any(right and changes for right, changes in zip(self.right, self.changes, strict=True))


def files(folder: Path) -> dict[str, bytes]:
    """Read the files below a folder, by path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plain(tree: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out white space around lines, and blank lines."""
    return {name: b"\n".join(line.strip() for line in data.splitlines() if line.strip()) for name, data in tree.items()}


def added(patch: Path) -> Counter[bytes]:
    """Count the lines that a patch adds."""
    lines = patch.read_bytes().splitlines()
    return Counter(line[1:].strip() for line in lines if line.startswith(b"+") and not line.startswith(b"+++"))


def tries(root: Path, half: str) -> Iterator[Try]:
    """Try each case of a half."""
    for case in sorted(path.parent for path in root.rglob("case.json")):
        package = case.relative_to(root).parts[0]
        if half and half != ("tuned", "held")[int(hashlib.sha256(package.encode()).hexdigest(), 16) % 2]:
            continue
        base, ours, theirs, truth = (files(case / side) for side in ("base", "ours", "theirs", "truth"))
        start = time.process_time()
        made = made_candidates(base, ours, theirs)
        seconds = time.process_time() - start
        right = []
        for one in made:
            result = {path: data for path, data in {**ours, **one.candidate.files}.items() if data is not None}
            right.append(plain(result) == plain(truth))
        yield Try(
            package,
            case.name,
            not added(case / "new.patch") - added(case / "old.patch"),
            tuple(one.candidate.rule for one in made),
            tuple(one.features for one in made),
            tuple(right),
            tuple(one.candidate.confidence for one in made),
            tuple(bool(one.candidate.files) for one in made),
            likely([one.candidate for one in made]),
            seconds,
        )


def report(done: list[Try]) -> None:
    """Print how often the first candidate is right, and how well its confidence says so."""
    for name, part in (("kept", [one for one in done if one.kept]), ("changed", [one for one in done if not one.kept])):
        told = [one for one in part if one.offered]
        right, three = sum(one.right[0] for one in told), sum(any(one.right) for one in told)
        share = 100 / max(len(part), 1)
        print(
            f"{name:8} {len(part):4} cases: first right {right} ({right * share:.0f} %), wrong {len(told) - right}"
            f" ({(len(told) - right) * share:.1f} %), right among three {three} ({three * share:.0f} %)"
        )
        seen = sum(one.shown_right for one in part)
        possible = [one for one in part if not one.offered and any(one.changes)]
        print(
            f"         right among three, likely or possible {seen} ({seen * share:.0f} %);"
            f" possible in {len(possible)}, right in {sum(one.shown_right for one in possible)}"
        )
        rules = Counter(one.rules[0] for one in told if one.right[0])
        print(f"         right by least certain step: {', '.join(f'{rule} {n}' for rule, n in rules.most_common())}")
    for low, high in ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        some = [one for one in done if one.features and low <= one.confidences[0] < high]
        if some:
            mean = statistics.mean(one.confidences[0] for one in some)
            right = sum(one.right[0] for one in some)
            print(
                f"confidence {low} to {min(high, 1)}: {len(some)} cases, mean {mean:.2f}, right {right / len(some):.2f}"
            )
    spent = sorted(one.seconds for one in done)
    print(f"seconds: median {statistics.median(spent):.2f}, most {spent[-1]:.2f}")


def fit(done: list[Try]) -> list[float]:
    """Fit a logistic regression to the candidates; the same patch in several pairs of releases counts once in all."""
    times = Counter((one.package, one.patch) for one in done)
    rows: dict[tuple[tuple[float, ...], bool], float] = {}
    for one in done:
        for row in zip(one.features, one.right, strict=True):
            rows[row] = rows.get(row, 0.0) + 1 / times[one.package, one.patch]
    total = sum(rows.values())
    weights = [0.0] * len(FEATURES)
    for _ in range(1_500):
        slopes = [0.0, *(0.2 * weight for weight in weights[1:])]
        for (x, right), share in rows.items():
            off = confidence(x, weights) - right
            slopes = [slope + share * off * value for slope, value in zip(slopes, x, strict=True)]
        weights = [weight - 1.5 * slope / total for weight, slope in zip(weights, slopes, strict=True)]
    return weights


def crossed(done: list[Try]) -> list[Try]:
    """Score each tenth of the packages by a fit that did not see it."""
    scored = []
    packages = sorted({one.package for one in done})
    for fold in range(10):
        held = set(packages[fold::10])
        weights = fit([one for one in done if one.package not in held])
        for one in (one for one in done if one.package in held):
            sure = [confidence(x, weights) for x in one.features]
            scored.append(one._replace(confidences=tuple(sure), offered=any(one.changes[:1]) and sure[0] >= OFFERED))
    return scored


def main() -> None:
    """Score, or fit."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("cases", nargs="+", type=Path)
    words.add_argument("--half", default="", choices=("tuned", "held"))
    words.add_argument("--fit", action="store_true")
    words.add_argument("--cross", action="store_true")
    given = words.parse_args()
    done = [one for root in given.cases for one in tries(root, given.half)]
    if given.fit:
        for name, weight in zip(FEATURES, fit(done), strict=True):
            print(f'    "{name}": {weight:.2f},')
    else:
        report(crossed(done) if given.cross else done)


if __name__ == "__main__":
    main()
