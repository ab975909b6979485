"""kz report --html of the sample: built, checked on an emulated device, and judged on every version of its upstream."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import Kz


@pytest.fixture
def project(built: Path, sample: Path) -> Path:
    """A copy of the built sample."""
    return Path(shutil.copytree(built, sample, dirs_exist_ok=True))


def test_the_page_shows_what_is_recorded_and_known_and_asks_nobody(project: Path, kz: Kz) -> None:
    assert kz("-C", project, "health").returncode == 0
    (project / "upstream.bundle").rename(project / "gone")  # upstream is not there any more
    done = kz("-C", project, "report", "--html")
    assert done.returncode == 0, done.stderr
    page = (project / "out/report/report.html").read_text()
    assert Path(done.stdout.splitlines()[-1]).absolute() == project / "out/report/report.html"
    sentence = done.stdout.splitlines()[0].removeprefix("Nothing fails. ")
    assert "5 of 5 patches hold on their pins" in sentence and sentence in html.unescape(page)

    heads = re.findall(r'<th scope="col"[^>]*>(v[\d.]+|main)', page)
    assert heads[0] == "v0.1.0" and heads[-1] == "main" and "not judged yet:" not in page
    assert re.search(r"since\s+<code>[0-9a-f]{10}</code> 2026-\d\d-\d\d [^<]*, first in v", page), (
        "the commit behind a cell"
    )
    record = json.loads((project / "out/build/sample-0.1/linux-arm64/manifest.json").read_text())
    size = record["files"]["lib/libminirt.so"]["size"]
    assert f"libminirt.so, {size} bytes" in page
    assert set(record["phases"]) >= {"library-configure", "library-build"} and ">library-build</th>" in page
    assert sum(record["code"]["lib/libminirt.so"].values()) > 1000
    assert record["code"]["lib/libminirt.so"].keys() == {"minirt/runtime", "minirt/extension/jni"}
    assert ">minirt/extension/jni</th>" in page
    assert "BSD-3-Clause" in page and "not signed" in page and len(page) < 1_500_000

    again = kz("-C", project, "report", "--html", "copy.html", cwd=project)
    assert again.returncode == 0 and (project / "copy.html").read_text() == page
    assert len((project / "out/report/history.jsonl").read_bytes().splitlines()) == 1


def test_a_broken_check_is_the_first_thing_on_the_next_page(project: Path, kz: Kz) -> None:
    assert kz("-C", project, "report", "--html").returncode == 0
    record = project / "out/audit/sample-0.1/linux-arm64/manifest.json"
    facts = json.loads(record.read_text())
    facts["checks"][0].update(status="FAIL", evidence="<b>made up</b>")
    record.write_text(json.dumps(facts))
    done = kz("-C", project, "report", "--html", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"]["good"] is False
    page = (project / "out/report/report.html").read_text()
    first = page[page.index("<main>") : page.index("<h2>Patches on every version")]
    assert "Something fails" in first and "newly failing" in first and "&lt;b&gt;made up&lt;/b&gt;" in first
    assert len((project / "out/report/history.jsonl").read_bytes().splitlines()) == 2


def test_a_record_of_another_kz_is_named(project: Path, kz: Kz) -> None:
    record = project / "out/audit/sample-0.1/linux-arm64/manifest.json"
    record.write_text('{"key": "k", "checks": [7]}')
    done = kz("-C", project, "report", "--html")
    assert done.returncode == 3 and "was not written by this kz" in done.stderr


def test_a_library_that_is_gone_or_changed_did_not_pass_its_audit(project: Path, kz: Kz) -> None:
    library = next((project / "dist").rglob("libminirt.so"))
    for change in (lambda: library.write_bytes(library.read_bytes() + b"x"), library.unlink):
        change()
        done = kz("-C", project, "report", "--html")
        assert "PASS" not in done.stdout and done.returncode == 0, done.stdout
        page = html.unescape((project / "out/report/report.html").read_text())
        assert "it was removed since it was built" in page or "it is not the file that was built and audited" in page
        shown = kz("-C", project, "report").stdout
        assert "audit linux-arm64: lib/libminirt.so was changed or removed since: kz build" in shown


def test_a_pin_by_its_commit_is_judged_where_a_release_has_it_too(sample: Path, kz: Kz) -> None:
    """No patch held on its pin, said the page, and to run `kz verify`."""
    pins = (sample / "pins.yaml").read_text()
    commit = json.loads((sample / "pins.lock").read_text())["lines"]["sample-0.1"]["minirt"]["commit"]
    (sample / "pins.yaml").write_text(pins.replace("minirt: v0.1.0", f"minirt: {commit}"))
    for words in (["lock", "--write"], ["health"]):
        assert kz("-C", sample, *words).returncode == 0
    done = kz("-C", sample, "report", "--html")
    assert "5 of 5 patches hold on their pins" in done.stdout, done.stdout + done.stderr


def test_a_number_without_end_in_a_record_is_named(project: Path, kz: Kz) -> None:
    record = project / "out/build/sample-0.1/linux-arm64/manifest.json"
    facts = json.loads(record.read_text())
    record.write_text(json.dumps({**facts, "ccache": {"hits": float("inf"), "misses": 0}}))
    done = kz("-C", project, "report", "--html")
    assert done.returncode == 3 and "was not written by this kz: OverflowError" in done.stderr, done.stderr
