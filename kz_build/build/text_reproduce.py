"""What building twice showed, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from kz_build.build.variation import CAUSES, Difference, Reproduced

_MOST = 12
"""Places of one file with the same causes that are named one by one."""


def reproduced(found: Reproduced) -> str:
    """What was varied, what could not be, and each difference with its cause."""
    varied = [v for v in found.variations if not v.absent]
    rows = ["varied", *(f"  {v.name:9} {v.first} -> {v.second}" + (f" ({v.note})" if v.note else "") for v in varied)]
    if absent := [v for v in found.variations if v.absent]:
        rows += ["not varied", *(f"  {v.name:9} {v.absent}" for v in absent)]
    rows += list(_differences(found.differences))
    if found.objects:
        rows += ["intermediate files that differ", *(f"  {name}" for name in found.objects)]
    took = ", ".join(f"{name} {seconds:g} s" for name, seconds in found.builds.items())
    rows.append(f"builds: {took}")
    if found.dist == "differs":
        rows.append("dist, as `kz build` left it, differs: a cache, or another compiler of this machine, was in it")
    elif found.dist == "same":
        rows.append("dist, as `kz build` left it, has the same bytes")
    if found.same:
        rows.append(f"reproduced: {len(found.files)} files bit-identical, those with debug information too")
    return "\n".join(rows)


def _differences(found: tuple[Difference, ...]) -> Iterator[str]:
    groups: dict[tuple[str, tuple[str, ...]], list[Difference]] = {}
    for difference in found:
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
    """Text rather than offsets and bytes."""
    return not any(" at 0x" in text or "ends at" in text for text in (difference.first, difference.second))
