"""kz radar over every pull request that the clone holds, from nothing and again."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from common import ENV, arguments, beyond, in_turn, ms, table, trial

from kz_build.git import refs


def main() -> None:
    """Beside it, what git alone takes to say which blobs the heads have at the stack's paths."""
    project, runs = arguments(3)
    with tempfile.TemporaryDirectory() as folder:
        found = trial(project, Path(folder))
        found.kz("radar")  # brings heads and blobs where nobody did
        heads = sorted(set(refs.pulls(found.repository).values()))
        names = "".join(f"{head}:{path}\n" for head in heads for path in sorted(found.stack().touched)).encode()
        argv = found.repository.argv("cat-file", "--batch-check", "--buffer")

        def first() -> None:
            found.forget()
            found.kz("radar")

        def again() -> None:
            found.kz("radar")

        def batch_check() -> None:
            subprocess.run(argv, input=names, env=ENV, check=True, capture_output=True)

        seconds = in_turn(runs, version=lambda: found.kz("--version"), first=first, again=again, git=batch_check)
        said = json.loads(found.kz("radar", "--json"))[0]
        table(
            f"radar: {said['heads']:,} pull requests, {said['near']} change the stack's files, "
            f"{len(said['pulls'])} would hurt; medians of {runs} rounds",
            ("contender", "ms", "ms beyond kz --version"),
            [
                (
                    "kz radar, nothing remembered",
                    ms(seconds["first"]),
                    f"{beyond(seconds['first'], seconds['version']):,.0f}",
                ),
                ("kz radar, again", ms(seconds["again"]), f"{beyond(seconds['again'], seconds['version']):,.0f}"),
                ("git cat-file --batch-check, the ids alone", ms(seconds["git"]), ""),
            ],
        )


if __name__ == "__main__":
    main()
