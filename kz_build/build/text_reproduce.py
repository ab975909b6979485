"""The result of `kz reproduce` as a table."""

from __future__ import annotations

from collections.abc import Iterator

from kz_build.build.variation import CAUSES, Difference, ReproduceResult

_MOST = 12
"""The most places with the same causes that are listed for one file."""


def reproduced(result: ReproduceResult) -> str:
    """Return what was varied, what could not be, and each difference with its cause."""
    varied = [v for v in result.variations if not v.absent]
    rows = ["varied", *(f"  {v.name:9} {v.first} -> {v.second}" + (f" ({v.note})" if v.note else "") for v in varied)]
    if absent := [v for v in result.variations if v.absent]:
        rows += ["not varied", *(f"  {v.name:9} {v.absent}" for v in absent)]
    rows += list(_differences(result.differences))
    if result.objects:
        rows += ["intermediate files that differ", *(f"  {name}" for name in result.objects)]
    took = ", ".join(f"{name} {seconds:g} s" for name, seconds in result.builds.items())
    rows.append(f"builds: {took}")
    if result.dist == "differs":
        rows.append("dist, as `kz build` left it, differs: a cache or another compiler of this machine made it")
    elif result.dist == "same":
        rows.append("dist, as `kz build` left it, has the same bytes")
    if result.same:
        rows.append(f"reproduced: {len(result.files)} files bit-identical, those with debug information too")
    return "\n".join(rows)


def _differences(differences: tuple[Difference, ...]) -> Iterator[str]:
    groups: dict[tuple[str, tuple[str, ...]], list[Difference]] = {}
    for difference in differences:
        groups.setdefault((difference.file, difference.causes), []).append(difference)
    for (file, causes), places in groups.items():
        named = ", ".join(d.where or "as a whole" for d in places[:_MOST])
        more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
        yield f"DIFFERS {file}: {named}{more}"
        yield from (f"  {cause}: {CAUSES[cause]}" for cause in causes)
        if not causes:
            yield "  follows from the rest"
            continue
        shown = next((d for d in places if _readable(d)), places[0])
        yield f"  first:  {shown.first}"
        yield f"  second: {shown.second}"


def _readable(difference: Difference) -> bool:
    """Whether a difference is text rather than offsets and bytes."""
    return not any(" at 0x" in text or "ends at" in text for text in (difference.first, difference.second))
