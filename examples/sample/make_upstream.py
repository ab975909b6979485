"""Makes upstream.bundle, the git repository that the sample project builds from, out of upstream/.

upstream/ holds the files of v0.1.0 as they are, and upstream/history/ every later commit as a mail of `git
format-patch`. A commit called `Release vX` gets the tag vX. Names and dates come from the mails and from here, never
from this machine, so the commits are the same wherever this runs. The bundle's bytes are git's own affair: a bundle
that already holds these commits is left alone.

    python make_upstream.py            writes upstream.bundle
    python make_upstream.py --check    only says whether it is up to date (exit code 1 if not)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
UPSTREAM = HERE / "upstream"
BUNDLE = HERE / "upstream.bundle"
NAME, EMAIL, FIRST_DATE = "minirt authors", "authors@minirt.example", "2026-01-12T09:00:00Z"
ANNOTATED = ("v0.3.0",)  # one tag is an object of its own, as upstreams have both kinds


def git(repository: Path, *arguments: str, date: str = FIRST_DATE) -> str:
    """Runs git in `repository` without this machine's configuration and returns what it printed."""
    home = str(repository.parent)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "XDG_CONFIG_HOME": home,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "LC_ALL": "C",
        "TZ": "UTC",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": NAME, f"GIT_{role}_EMAIL": EMAIL, f"GIT_{role}_DATE": date}
    command = ["git", "-c", "core.fileMode=false", "-c", "pack.threads=1", *arguments]
    done = subprocess.run(command, cwd=repository, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def make_history(repository: Path) -> None:
    """Fills an empty folder with the repository: the first commit, then the mails, then the tags."""
    git(repository, "init", "--quiet", "--initial-branch=main", "--template=")
    shutil.copytree(UPSTREAM, repository, dirs_exist_ok=True, ignore=shutil.ignore_patterns("history", "__pycache__"))
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--message=Release v0.1.0")
    mails = sorted((UPSTREAM / "history").glob("*.patch"))
    git(repository, "am", "--quiet", "--committer-date-is-author-date", *map(str, mails))
    for line in git(repository, "log", "--format=%H %aI %s").splitlines():
        commit, date, subject = line.split(" ", 2)
        if subject.startswith("Release "):
            tag = subject.removeprefix("Release ")
            message = ["--message", f"minirt {tag}"] if tag in ANNOTATED else []
            git(repository, "tag", *message, tag, commit, date=date)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="minirt-") as scratch:
        repository = Path(scratch) / "minirt"
        repository.mkdir()
        make_history(repository)
        made = repository / "upstream.bundle"
        git(repository, "bundle", "create", "--quiet", made.name, "HEAD", "main", "--tags")
        wanted = git(repository, "bundle", "list-heads", made.name)
        if BUNDLE.exists() and git(repository, "bundle", "list-heads", str(BUNDLE)) == wanted:
            print(f"{BUNDLE.name} is up to date")
            return 0
        if "--check" in arguments:
            print(f"{BUNDLE.name} is not what upstream/ says; run {Path(__file__).name}")
            return 1
        scratch_copy = BUNDLE.with_suffix(".new")
        shutil.copyfile(made, scratch_copy)
        scratch_copy.replace(BUNDLE)
        print(wanted, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
