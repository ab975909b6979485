"""The places of what the page draws."""

from __future__ import annotations

from kz_build.report.charts import Period, dots, memory, percent, period, stacked, trend
from kz_build.report.heat_map import heat_maps
from kz_build.report.history import History, Run
from kz_build.report.pin_facts import _origin, age
from kz_build.report.size import by_kind, kind_of
from kz_build.report.trends import figure_trends
from tests.report.page_facts import facts


def test_a_share_stays_between_nothing_and_all() -> None:
    assert [percent(1, 3), percent(5, 2), percent(-1, 2), percent(1, 0)] == ["33.33%", "100%", "0%", "0%"]


def test_parts_of_a_bar_stand_side_by_side() -> None:
    boxes = stacked((("code", 25), ("data", 50)), 100, " bytes")
    assert [(box.x, box.width, box.title) for box in boxes] == [
        ("0%", "25%", "code: 25 bytes"),
        ("25%", "50%", "data: 50 bytes"),
    ]


def test_an_axis_has_few_labels_and_all_of_them_inside() -> None:
    assert [tick.label for tick in Period("2026-01-20", "2026-03-02").ticks()] == ["2026-02", "2026-03"]
    long = Period("2020-01-01", "2026-08-22").ticks()
    assert 4 <= len(long) <= 8 and all(0 < float(tick.x.rstrip("%")) < 100 for tick in long)
    shown = period(facts().stacks)
    assert shown == Period("2026-02-01", "2026-06-30") and shown.x("2026-06-30") == "100%"
    assert period(()) is None


def test_memory_is_drawn_against_what_the_recipe_needs() -> None:
    drawn = memory(facts().exports[0])
    assert [box.width for box in drawn.boxes] == ["33.33%", "66.67%"]
    assert [line.title for line in drawn.lines] == ["at least 3 GB needed", "at most 5 GB needed"]
    least, most = (float(line.x.rstrip("%")) for line in drawn.lines)
    first = float(drawn.boxes[0].y.rstrip("%"))
    assert most < first < least, "4 GB lie between the two lines"


def test_runs_and_their_band_share_a_scale() -> None:
    drawn = dots(facts().devices[0].figures[0])
    assert drawn.band and len(drawn.runs) == 3
    left, width = (float(text.rstrip("%")) for text in (drawn.band.x, drawn.band.width))
    assert float(drawn.median.rstrip("%")) < left and left + width <= 100


def test_a_figure_has_a_line_over_all_reports() -> None:
    def run(median: float) -> Run:
        return Run("", "", {}, {}, {}, {"R5": {"decode": median}})

    history = History(tuple(map(run, (14.0, 14.0, 18.0, 16.0))), {})
    assert figure_trends(history) == {("R5", "decode"): (14.0, 18.0, 16.0)}, (
        "a figure that nobody measured again is no point"
    )
    points = trend((14.0, 18.0, 16.0), "tok/s")
    assert [(point.x, point.y) for point in points] == [("0%", "100%"), ("50%", "0%"), ("100%", "50%")]
    assert points[1].title == "18 tok/s"
    assert trend((14.0,), "tok/s") == trend((), "tok/s") == ()


def test_sections_are_of_few_kinds() -> None:
    kinds = {
        ".text": "code",
        ".rodata.str1": "constants",
        ".init_array": "data",
        ".got.plt": "data",
        ".dynsym": "linking",
    }
    kinds |= {".symtab": "names", ".debug_info": "debug", "headers, padding": "other"}
    assert {name: kind_of(name) for name in kinds} == kinds
    assert by_kind(((".text", 3), (".text.hot", 4), ("x", 1))) == {"code": 7, "other": 1}


def test_the_table_begins_with_the_release_before_the_pin_and_groups_what_cells_say() -> None:
    first, wheel = heat_maps(facts().stacks)
    assert [version.name for version in first.versions] == ["v0.9", "v1.0", "v1.1", "main"] and first.older == 0
    (row,) = first.rows
    assert row.anchor == "p1-1" and [(note.cell.word, note.versions) for note in row.notes] == [
        ("content", ("v1.1", "main"))
    ]
    assert wheel.versions == () and len(wheel.rows) == 1


def test_days_between_dates() -> None:
    assert age("2026-02-01", "2026-03-01") == 28 and age("", "2026-03-01") is None


def test_a_pin_without_a_digest_names_the_command_that_gets_it_one() -> None:
    """Only a download tells the digest of a file; a registry tells that of an image."""
    unknown = {"version": "1", "sha256": None}
    assert _origin("ndk", "archive", unknown) == "no digest yet: kz lock --write --trust ndk"
    assert _origin("base", "image", unknown) == "no digest yet: kz lock --write"
