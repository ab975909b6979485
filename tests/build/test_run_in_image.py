"""What a verb in the build image writes back, with a folder for its container."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import cast

from kz_build.build import run_in_image
from kz_build.container import tar_stream
from kz_build.container.sandbox import Sandbox
from kz_build.pins.load import load_project
from tests.conftest import snapshot


class Folder:
    """A folder of this machine in the place of a container."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def send(self, source: Path, only: tuple[str, ...]) -> list[str]:
        names = tar_stream.extract(tar_stream.archive(source, PurePosixPath("project"), only), self.root.joinpath)
        return [name.removeprefix("project/") for name in names]

    def fetch(self, folder: str, places: Callable[[str], Path | None]) -> set[str]:
        name = PurePosixPath(folder).name
        return tar_stream.extract(tar_stream.archive(self.root / name, PurePosixPath(name)), places)


def test_a_rebase_inside_removes_nothing_that_it_was_not_sent(sample: Path, tmp_path: Path) -> None:
    """It removed the stacks of other lines with a folder of their own, links, and files with a line end in their names."""
    pins = (sample / "pins.yaml").read_text()
    pins = pins.replace("{git: upstream.bundle}", "{git: upstream.bundle, patches: 'quilt/{line}'}")
    pins = pins.replace("  sample-0.1: {minirt", "  other-0.1: {minirt: v0.1.0}\n  sample-0.1: {minirt")
    (sample / "pins.yaml").write_text(pins)
    (sample / "quilt/other-0.1").mkdir(parents=True)
    (sample / "patches/sample-0.1/minirt").rename(sample / "quilt/sample-0.1")
    (sample / "quilt/other-0.1/series").write_text("# nothing yet\n")
    (sample / "patches/to\ndo").write_text("a file of the user")
    (sample / "patches/link").symlink_to("../pins.yaml")
    before = snapshot(sample)
    project = load_project(sample)
    container = Folder(tmp_path / "container")
    sent = container.send(sample, run_in_image._needed_paths(project, ["sample-0.1"]))
    (gone,) = (container.root / "project/quilt/sample-0.1").glob("0005-*")
    gone.unlink()
    changed = run_in_image._fetch_changes(project, cast(Sandbox, container), sent)
    assert changed == (f"quilt/sample-0.1/{gone.name}",)
    assert snapshot(sample) == {name: data for name, data in before.items() if name != changed[0]}
