"""Candidates for a conflict: one small case for each rule, and any content."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kz_build.resolve.candidate import Candidate, candidates, made_candidates
from kz_build.resolve.confidence import OFFERED
from kz_build.resolve.token_merge import merge_tokens

FUNCTION = """int load_model(const char *path, int flags)
{
  int handle = open_file(path);
  if (handle < 0)
    return report_error(path);
  int size = file_size(handle);
  void *data = map_file(handle, size);
  close_file(handle);
  return check_model(data, size, flags);
}
"""
OTHER = """static int check_model(void *data, int size, int flags)
{
  if (size < HEADER_SIZE)
    return MODEL_TOO_SHORT;
  return check_header(data, flags);
}

"""
LIMIT = "  if (size > LARGEST_MODEL)\n    return MODEL_TOO_LONG;\n"


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def best(base: str, ours: str, theirs: str) -> Candidate:
    """The first candidate for one file."""
    return made_candidates(*sides(base, ours, theirs))[0].candidate


def sides(*texts: str) -> list[dict[str, bytes]]:
    return [{"model.c": text.encode()} for text in texts]


def text(candidate: Candidate, path: str = "model.c") -> str:
    data = candidate.files[path]
    assert data is not None
    return data.decode()


MAPPED = "  void *data = map_file(handle, size);\n"
LIMITED = changed(FUNCTION, (MAPPED, LIMIT + MAPPED))


def test_changes_of_different_lines_merge() -> None:
    ours = changed(FUNCTION, ("open_file(path)", "open_file(path, O_RDONLY)"))
    one = best(FUNCTION, ours, LIMITED)
    assert text(one) == changed(ours, (MAPPED, LIMIT + MAPPED)) and one.rule == "merged"


def test_lines_beside_those_that_upstream_changed_are_placed_by_the_other_side() -> None:
    ours = changed(FUNCTION, (MAPPED, "  struct Mapping mapping = new_mapping(handle);\n"))
    one = best(FUNCTION, ours, LIMITED)
    assert text(one) == changed(ours, ("file_size(handle);\n", f"file_size(handle);\n{LIMIT}")) and one.rule == "placed"


def test_code_that_moved_within_the_file_is_found_by_its_content() -> None:
    base, ours, theirs = OTHER + FUNCTION, FUNCTION + OTHER, OTHER + LIMITED
    assert text(best(base, ours, theirs)) == LIMITED + OTHER
    moved = changed(OTHER, ("MODEL_TOO_SHORT", "-EINVAL"))
    assert text(best(base, ours, moved + FUNCTION)) == FUNCTION + moved


def test_code_that_moved_within_the_file_and_changed_beside_an_edit_is_not_taken_for_removed() -> None:
    names = ("kernel", "header", "table", "weight", "input", "output")
    rest = "".join(f"int {name}_size(int flags)\n{{\n  return {name}_bytes(flags);\n}}\n\n" for name in names)
    base = rest + FUNCTION
    ours = changed(FUNCTION, (MAPPED, "  struct Map map = new_map(handle);\n")) + rest
    one = best(base, ours, rest + LIMITED)
    assert text(one) == changed(ours, ("  struct Map", f"{LIMIT}  struct Map")) and one.rule == "placed"


def test_what_upstream_has_already_is_dropped_and_the_rest_kept() -> None:
    theirs = changed(LIMITED, ("report_error(path)", "report_error(path, handle)"))
    ours = changed(LIMITED, ("close_file(", "close_model("))
    one = best(FUNCTION, ours, theirs)
    assert text(one) == changed(ours, ("report_error(path)", "report_error(path, handle)"))
    assert one.rule == "there" and "upstream has it (model.c:7)" in one.reason


def test_what_upstream_has_is_not_taken_for_a_line_beside_it_with_other_white_space() -> None:
    base = f"#if DIRECT\n  FLAG_DIRECT = 2,\n#endif\n  FLAG_COUNT = 4,\n{FUNCTION}"
    direct = ("  FLAG_DIRECT = 2,\n", "# ifdef O_DIRECT\n  FLAG_DIRECT = 2,\n# endif\n")
    ours, both = changed(base, direct), changed(base, direct, ("file_size(", "file_size64("))
    one = best(base, ours, both)
    assert text(one) == both and one.rule == "there"


def test_lines_that_upstream_removed_too_need_no_removal() -> None:
    ours = changed(FUNCTION, ("  close_file(handle);\n", ""), ("int size", "long size"))
    theirs = changed(FUNCTION, ("  close_file(handle);\n", ""), ("report_error(path)", "report_error(path, 1)"))
    assert text(best(FUNCTION, ours, theirs)) == changed(ours, ("report_error(path)", "report_error(path, 1)"))


def test_a_line_that_the_patch_removes_and_upstream_rewrote_is_not_taken_for_gone() -> None:
    theirs = changed(FUNCTION, ("  close_file(handle);\n", ""))
    ours = changed(FUNCTION, ("  close_file(handle);", "  unmap(close_file(handle, 0));"))
    assert "there" not in [one.candidate.rule for one in made_candidates(*sides(FUNCTION, ours, theirs))]


def test_what_upstream_has_in_place_of_lines_that_moved_away_is_not_changed() -> None:
    program = "if BUILD_{0}\nbin_PROGRAMS += {1}\nMANPAGES += utils/{1}.1\n{1}_SOURCES = {2}\n"
    base = program.format("TRACE", "trace", "utils/trace.c lib/strings.c lib/paths.c lib/events.c")
    parts = "".join(
        f"\\\n  model/{part}/{part}_{kind}.c " for part in ("header", "check", "map") for kind in ("x", "y")
    )
    ours = program.format("MODEL", "model", parts)
    theirs = changed(base, ("bin_PROGRAMS", "usrbin_exec_PROGRAMS"))
    assert "replayed" not in [one.candidate.rule for one in made_candidates(*sides(base, ours, theirs))]


def test_words_that_the_patch_changes_are_changed_in_lines_that_upstream_rewrote() -> None:
    ours = changed(FUNCTION, ("int size = file_size(handle);", "int64_t size = file_size(handle);"))
    theirs = changed(FUNCTION, ("file_size(handle);", "file_size(handle, NO_LINKS);"))
    one = best(FUNCTION, ours, theirs)
    assert "  int64_t size = file_size(handle, NO_LINKS);\n" in text(one) and one.rule == "replayed"


def test_lines_are_inserted_before_one_that_upstream_rewrote_and_that_begins_as_they_do() -> None:
    check = "  if (flags < 0)\n    return report_error(path);\n"
    ours = FUNCTION.replace("handle =", "file =").replace("(handle <", "(file <")
    theirs = changed(FUNCTION, ("  if (handle", f"{check}  if (handle"))
    assert text(best(FUNCTION, ours, theirs)) == changed(ours, ("  if (file", f"{check}  if (file"))


def test_lines_that_the_patch_replaces_are_replaced_though_upstream_changed_the_same_words() -> None:
    ours = FUNCTION.replace("file_size(handle)", "file_size64(handle)").replace("*data =", "*bytes =")
    one = best(FUNCTION, ours, changed(FUNCTION, ("file_size(handle)", "known_size(path)")))
    assert text(one) == changed(ours, ("file_size64(handle)", "known_size(path)")) and one.rule == "overridden"
    one = best(FUNCTION, ours, changed(FUNCTION, ("  int size = file_size(handle);\n", "")))
    assert text(one) == changed(ours, ("  int size = file_size64(handle);\n", "")) and one.rule == "overridden"


def test_lines_that_the_patch_removes_are_found_by_those_that_upstream_kept_among_them() -> None:
    rule = '  elseif(flag MATCHES "^{0}")\n    # These suppress warnings in our headers.\n    set(CFLAGS "flag")\n'
    note = '    # Leave it out before it\n    # reaches the "^-m" filter.\n    set(skip ON)\n'
    base = f"foreach(flag)\n  if(skip)\n    set(skip OFF)\n{note}{rule.format('(-Wno|/wd)')}  endif()\nendforeach()\n"
    ours = base.replace(note, "    # It is in one string,\n    # which we ignore.\n").replace("-Wno", "-Wno-")
    one = best(base, ours, base.replace(rule.format("(-Wno|/wd)"), ""))
    assert text(one) == ours.replace(rule.format("(-Wno-|/wd)"), "") and one.rule == "overridden"


def test_a_block_that_upstream_added_to_is_replaced_as_a_whole() -> None:
    block = "  int handle = open_file(path);\n  if (handle < 0)\n    return report_error(path);\n"
    grown = (
        "  int handle = open_file(path);\n  if (handle == ENOENT)\n    return report_missing(path, errno);\n"
        "  if (handle == EACCES || handle == EPERM)\n    return report_forbidden(path, errno, getuid());\n"
        "  if (handle < 0 && !is_optional(flags) && !is_cached(path))\n    return report_error(path);\n"
    )
    theirs = changed(FUNCTION, (block, "  int handle = opened_before(path);\n"))
    ours = changed(FUNCTION, (block, grown))
    one = best(FUNCTION, ours, theirs)
    assert text(one) == changed(ours, (grown, "  int handle = opened_before(path);\n")) and one.rule == "overridden"
    assert one.confidence < OFFERED


def test_lines_that_the_patch_removes_go_with_the_conditional_that_upstream_put_around_them() -> None:
    include = (
        "#ifdef HAVE_MY_GLOBAL_H\n#include <my_global.h>\n#endif\n#ifdef HAVE_MY_SYS_H\n#include <my_sys.h>\n#endif\n"
    )
    base = f"#undef PACKAGE_VERSION\n{include}#include <mysql.h>\n{FUNCTION}"
    ours = changed(base, (include, f"#if !defined(HAVE_MYSQL_INIT)\n{include}#endif\n"))
    assert text(best(base, ours, changed(base, (include, "")))) == changed(base, (include, ""))


def test_lines_that_the_patch_replaces_and_upstream_kept_are_replaced_without_those_beside_them() -> None:
    old = 'set w_std "${user} ${tty} ${login} ${idle} ${what}"\nset w_short "${user} ${tty} ${idle} ${what}"\n'
    new = 'set w_std "${user} ${tty} ${from} ${login} ${idle} ${what}"\nset w_short "${user} ${tty} ${from} ${what}"\n'
    base, theirs = (f"set user 1\n{lines}\nrun_test\n" for lines in (old, new))
    ours = changed(base, (old, f'set w_pids 2\n{old}set w_pid "${{user}} ${{tty}} ${{idle}} ${{w_pids}} ${{what}}"\n'))
    assert text(best(base, ours, theirs)) == changed(ours, (old, new))


def test_the_more_lines_are_like_those_that_the_patch_replaces_the_surer_it_is_that_they_are_these() -> None:
    removed = (MAPPED, "")
    near, far = (
        best(FUNCTION, changed(FUNCTION, (MAPPED, line)), changed(FUNCTION, removed))
        for line in (
            "  void *data = map_file(handle, size, 0);\n",
            "  struct Map *bytes = map_file(handle, size, 0);\n",
        )
    )
    assert near.rule == far.rule == "overridden" and near.files == far.files
    assert far.confidence < near.confidence >= OFFERED


def test_words_that_the_patch_changes_in_lines_one_by_one_are_changed_in_those_that_are_left() -> None:
    first, second = "  private bool updated = false;\n", "  [DefaultValue(false)]\n"
    base = f"class Check\n{{\n{first}{second}  public bool Updated {{ get; set; }}\n}}\n"
    ours, theirs = changed(base, (first, "")), base.replace("false", "true")
    found = [text(one.candidate) for one in made_candidates(*sides(base, ours, theirs)) if one.candidate.files]
    assert found == [ours.replace("false", "true")]


def test_what_the_patch_appends_stays_at_the_end() -> None:
    lists = "rlm_redis\nrlm_rediswho\n"
    assert text(best(lists, f"{lists}rlm_kafka\n", f"{lists}rlm_policy\n")) == f"{lists}rlm_kafka\nrlm_policy\n"


def test_a_name_that_the_patch_removes_and_upstream_uses_again_is_told_and_costs_confidence() -> None:
    theirs = FUNCTION.replace("handle", "file")
    calm = best(FUNCTION, f"{FUNCTION}\n/* end */\n", theirs)
    ours = changed(FUNCTION, ("  return check_model", "\n  sync(handle);\n  return check_model"))
    one = best(FUNCTION, ours, theirs)
    assert "  sync(handle);\n" in text(one) and "the patch removes `handle`" in one.reason
    assert one.confidence < calm.confidence and "`handle`" not in calm.reason


def test_formatting_is_seen_through_and_kept() -> None:
    ours = FUNCTION.replace("(handle)", "( handle )").replace("  ", "\t")
    theirs = changed(FUNCTION, ("file_size(handle)", "file_size(handle, flags)"))
    one = best(FUNCTION, ours, theirs)
    assert text(one) == changed(ours, ("file_size( handle )", "file_size( handle, flags )"))
    assert one.rule == "reformatted"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        ("\t  f (0666 & ~umask, &node);", "\tf (0666 & ~umask, &node);", "\t  f (0666, &node);", "\tf (0666, &node);"),
        ('sep  ","', 'sep    ","', 'sep  " "', 'sep    " "'),
        ("f(a, b)", "f( a, b )", "f(a)", "f( a )"),
        ("{ a }", "{a}", "{ a, b }", "{a, b}"),
        ("g ( a, c )", "g(a, c)", "g ( a, b, c )", "g(a, b, c)"),
        ("if( a->b )", "if (a->b)", "if( (long) a->b )", "if ((long) a->b)"),
        ("  f(x);", "  f (y);", "    f(x);", "    f (y);"),
        ("a=b", "a=c", "a = b", "a = c"),
    ],
)
def test_white_space_that_the_patch_changes_is_changed_and_the_rest_is_upstreams(
    base: str, ours: str, theirs: str, result: str
) -> None:
    lines = [f"{line}\n".encode() for line in (base, ours, theirs)]
    assert merge_tokens(lines[:1], lines[1:2], lines[2:], 0, 1) == [f"{result}\n".encode()]


def test_a_call_that_upstream_keeps_is_removed_though_another_of_the_new_lines_is_there() -> None:
    size = "  int size = file_size(handle);\n"
    old = f"{size}  log_size(size);\n"
    base = changed(FUNCTION, (size, old))
    ours = changed(base, ("  log_size(size);\n", "  trace(handle);\n  log_size(size);\n  flags |= CHECKED;\n"))
    theirs = changed(base, (old, "  flags |= CHECKED;\n"))
    assert all(one.candidate.rule != "there" for one in made_candidates(*sides(base, ours, theirs)))


def test_lines_that_come_twice_cost_confidence() -> None:
    theirs = changed(FUNCTION, ("  close_file(handle);\n", "  close_file(handle);\n  count_models(flags);\n"))
    elsewhere = changed(FUNCTION, ("{\n", "{\n  count_models(flags);\n"))
    other = changed(FUNCTION, ("{\n", "{\n  count_files(handle);\n"))
    twice, once = (best(FUNCTION, ours, theirs) for ours in (elsewhere, other))
    assert text(twice).count("count_models") == 2 and twice.rule == once.rule
    assert twice.confidence < once.confidence


def test_another_kind_of_quotes_is_no_change() -> None:
    base = "open_files = Settings['files']\nmodel = load(Settings['path'])\nmodel.check()\n"
    theirs = changed(base, ("Settings['path']", "Settings.get('path', '/models')"))
    ours = base.replace("'", '"')
    assert text(best(base, ours, theirs)) == changed(ours, ('Settings["path"]', "Settings.get('path', '/models')"))


def test_what_both_sides_add_to_a_sorted_list_is_sorted() -> None:
    base = "sources = [\n  'adam.cc',\n  'bert.cc',\n  'yolo.cc',\n]\n"
    theirs = changed(base, ("  'bert.cc',\n", "  'bert.cc',\n  'llama.cc',\n  'qwen.cc',\n"))
    ours = changed(base, ("  'bert.cc',\n", "  'bert.cc',\n  'mistral.cc',\n"))
    one = best(base, ours, theirs)
    assert text(one) == changed(theirs, ("  'qwen", "  'mistral.cc',\n  'qwen")) and one.rule == "sorted"


def test_an_import_goes_where_upstreams_imports_have_its_place() -> None:
    base = 'package embed\n\nimport (\n\t"io/ioutil"\n\t"os"\n)\n\nfunc Start(directory string) error {}\n'
    theirs = changed(base, ('ioutil"\n', 'ioutil"\n\t"net"\n'))
    ours = changed(base, ('\t"io/ioutil"\n', '\t"fmt"\n\t"io"\n\t"net/url"\n'))
    one = best(base, ours, theirs)
    assert text(one) == changed(ours, ('\t"net/url', '\t"net"\n\t"net/url')) and one.rule == "sorted"
    unsorted = changed(base, ('\t"io/ioutil"\n', '\t"net/url"\n\t"io"\n\t"fmt"\n'))
    assert best(base, unsorted, theirs).rule != "sorted"


def test_lines_that_upstream_has_twice_in_a_sorted_list_stay() -> None:
    base = "sources = [\n  'adam.cc',\n  'bert.cc',\n  'yolo.cc',\n]\n"
    theirs = changed(base, ("  'bert.cc',\n", "  'bert.cc',\n  'llama.cc',\n  'qwen.cc',\n"))
    ours = changed(base, ("  'bert.cc',\n", "  'bert.cc',\n  'mistral.cc',\n  'mistral.cc',\n  'qwen.cc',\n"))
    one = best(base, ours, theirs)
    assert text(one) == changed(ours, ("  'bert.cc',\n", "  'bert.cc',\n  'llama.cc',\n")) and one.rule == "sorted"


def test_a_look_alike_of_the_place_that_the_base_has_too_is_no_place() -> None:
    case = "    case {0}:\n      note = describe(device);\n      print_entry(note, {0});\n"
    rest = "  switch (kind) {\n" + case.format("DISK") + OTHER
    base = rest + case.format("CHAIN") + FUNCTION
    theirs = base.replace("CHAIN:\n", "CHAIN:\n      counted = 1;\n")
    one = made_candidates(*({"model.c": side.encode()} for side in (base, rest + FUNCTION, theirs)))[0].candidate
    assert one.rule == "left out" and not one.files


def test_an_edit_of_code_that_upstream_removed_goes_with_it() -> None:
    theirs = changed(OTHER + LIMITED, ("MODEL_TOO_SHORT", "-EINVAL"))
    one = best(OTHER + FUNCTION, OTHER, theirs)
    assert text(one) == changed(OTHER, ("MODEL_TOO_SHORT", "-EINVAL")) and one.rule == "gone"


def test_code_that_moved_to_another_file_is_patched_there() -> None:
    base, ours = {"model.c": (OTHER + FUNCTION).encode()}, {"model.c": OTHER.encode(), "load.c": FUNCTION.encode()}
    (one, *_) = candidates(base, ours, {"model.c": (OTHER + LIMITED).encode()})
    assert one.files == {"load.c": LIMITED.encode()}
    assert one.reason == "upstream moved the code to another file (load.c)"
    # Lines to remove are not taken for those that upstream removed.
    close = ("  close_file(handle);\n", "")
    (one, *_) = candidates(base, ours, {"model.c": (OTHER + changed(FUNCTION, close)).encode()})
    assert one.files == {"load.c": changed(FUNCTION, close).encode()}
    # The same where the old file is gone.
    both = OTHER.replace("model", "header") + FUNCTION
    (one, *_) = candidates(base, {"all.c": both.encode()}, {"model.c": (OTHER + LIMITED).encode()})
    assert one.files == {"all.c": both.replace(MAPPED, LIMIT + MAPPED).encode()}


def test_lines_inserted_between_ones_that_upstream_put_into_a_condition_are_indented_as_they_are() -> None:
    base = "test(\n  'network-panel',\n  find_program('test-network-panel.py'),\n      env : envs,\n  timeout : 60\n)\n"
    more = "exe = executable(\n  'wifi-panel',\n      env : envs,\n)\n"
    inside = "".join(f"  {line}\n" for line in base.replace("60", "120").splitlines())
    theirs = changed(base, ("  timeout", "  verbose : true,\n  timeout"))
    candidate = best(base + more, f"if xvfb.found()\n{inside}endif\n{more}", theirs + more)
    assert "        env : envs,\n    verbose : true,\n    timeout : 120\n" in text(candidate)


def test_new_lines_are_indented_as_upstreams_are_today() -> None:
    ours = FUNCTION.replace("\n  ", "\n      ")
    assert text(best(FUNCTION, ours, LIMITED)) == LIMITED.replace("\n  ", "\n      ")


def test_new_lines_end_as_upstreams_do_today() -> None:
    ours, theirs = FUNCTION.replace("\n", "\r\n"), LIMITED.replace("\n", "\r\n")
    assert text(best(FUNCTION, ours, LIMITED)) == theirs
    assert text(best(ours, FUNCTION, theirs)) == LIMITED
    assert text(best(FUNCTION, ours.replace("\n  ", "\n\t"), LIMITED)) == theirs.replace("\n  ", "\n\t")


def test_a_file_that_upstream_moved_is_patched_where_it_is() -> None:
    ours = {"core/model.c": FUNCTION.replace("int size", "long size").encode()}
    one = made_candidates({"model.c": FUNCTION.encode()}, ours, {"model.c": LIMITED.encode()})[0].candidate
    assert one.files == {"core/model.c": LIMITED.replace("int size", "long size").encode()}
    assert one.reason.startswith("upstream changed `int` to `long`; upstream moved the file (core/model.c); ")


def test_a_file_that_the_patch_renames_keeps_what_upstream_changed() -> None:
    ours = {"model.c": FUNCTION.replace("int size", "long size").encode()}
    (one, *_) = candidates({"model.c": FUNCTION.encode()}, ours, {"loader.c": LIMITED.encode()})
    assert one.files == {"model.c": None, "loader.c": LIMITED.replace("int size", "long size").encode()}


def test_a_file_that_the_patch_only_renames_keeps_what_upstream_changed() -> None:
    ours = {"model.c": FUNCTION.replace("int size", "long size").encode()}
    (one, *_) = candidates({"model.c": FUNCTION.encode()}, ours, {"loader.c": FUNCTION.encode()})
    assert one.files == {"model.c": None, "loader.c": ours["model.c"]}


def test_a_file_that_both_sides_rename_alike_keeps_what_upstream_changed() -> None:
    ours = {"loader.c": FUNCTION.replace("int size", "long size").encode()}
    (one, *_) = candidates({"model.c": FUNCTION.encode()}, ours, {"loader.c": LIMITED.encode()})
    assert one.files == {"loader.c": LIMITED.replace("int size", "long size").encode()}


def test_new_and_removed_files() -> None:
    base = {"gone.c": b"a\n", "model.c": FUNCTION.encode()}
    theirs = {"new.c": b"unlike anything that was there\n", "model.c": LIMITED.encode()}
    (one, *_) = candidates(base, base, theirs)
    assert one.files == {"gone.c": None, **theirs}


def test_a_hunk_for_which_there_is_no_place_is_left_out_with_little_confidence() -> None:
    one = best(OTHER + FUNCTION, OTHER, OTHER + LIMITED)
    assert not one.files and one.rule == "gone"
    assert candidates(*({"model.c": side.encode()} for side in (OTHER + FUNCTION, OTHER, OTHER + LIMITED))) == ()


NEW = b"unlike anything that was there\n"
LOSING = {
    "upstream added the file too": ({}, {"new.c": b"what upstream has\n"}, {"new.c": NEW}),
    "upstream has a file of the new name": ({"old.c": OTHER.encode()}, {"old.c": OTHER.encode(), "new.c": NEW}, {"new.c": OTHER.encode()}),
    "upstream changed a file that goes": ({"old.c": OTHER.encode()}, {"old.c": OTHER.encode() + NEW}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSING)
def test_a_file_of_upstream_whose_lines_are_lost_makes_a_candidate_unlikely_however_well_the_others_merge(
    case: str,
) -> None:
    base, ours, theirs = ({**dict(side), "model.c": FUNCTION.encode()} for side in LOSING[case])
    theirs["model.c"] = LIMITED.encode()
    (one,) = made_candidates(base, ours, theirs)
    assert one.candidate.files["model.c"] == theirs["model.c"]
    assert one.candidate.confidence < OFFERED and one.candidate.rule in ("added twice", "deleted")


def test_two_ways_to_order_what_both_sides_insert_are_both_there() -> None:
    ours = changed(FUNCTION, (MAPPED, f"  trace(path, size);\n{MAPPED}"))
    sides = ({"model.c": one.encode()} for one in (FUNCTION, ours, LIMITED))
    found = [text(one.candidate) for one in made_candidates(*sides) if one.candidate.files]
    assert changed(ours, (MAPPED, LIMIT + MAPPED)) in found
    assert changed(ours, ("  trace(", f"{LIMIT}  trace(")) in found


def test_where_both_sides_insert_no_order_is_offered_as_the_right_one() -> None:
    ours = changed(FUNCTION, (MAPPED, f"  trace(path, size);\n{MAPPED}"))
    assert candidates(*sides(FUNCTION, ours, LIMITED)) == ()


def test_blocks_that_begin_and_end_alike_conflict_where_both_sides_insert_one() -> None:
    block = "#ifndef HAVE_{0}\n#define HAVE_{0} 0\n#endif\n\n"
    tables, sizes, closing, paths = (block.format(name) for name in ("TABLES", "SIZES", "CLOSING", "PATHS"))
    base = f"#include <stdio.h>\n\n{tables}int table(void);\n#endif\n\n{closing}"
    ours = changed(base, (closing, sizes + closing))
    theirs = changed(base, ("stdio.h>\n", "stdio.h>\n#include <limits.h>\n"), (closing, paths + closing))
    (one, *_) = made_candidates(*sides(base, ours, theirs))
    assert one.candidate.rule == "placed" and text(one.candidate) == changed(theirs, (paths, sizes + paths))


def test_what_is_binary_has_no_candidate() -> None:
    assert candidates({"f": b"a\0b"}, {"f": b"a\0c"}, {"f": b"a\0d"}) == ()


LINES = st.lists(
    st.sampled_from([b"int a;\n", b"int b;\n", b"call(a, b);\n", b"}\n", b"\n", b"  x y z\n", b"\xff\0", b"a\rb\n"])
)
FILES = st.dictionaries(st.sampled_from(["f", "g", "h"]), LINES.map(b"".join), max_size=3)


@given(FILES, FILES, FILES)
def test_any_content_has_candidates_within_the_patchs_files(
    base: dict[str, bytes], ours: dict[str, bytes], theirs: dict[str, bytes]
) -> None:
    for one in candidates(base, ours, theirs):
        assert one.files.keys() <= base.keys() | ours.keys() | theirs.keys() and 0 <= one.confidence <= 1
        assert all(data != ours.get(path) for path, data in one.files.items())


@given(LINES, LINES)
@settings(max_examples=50)
def test_where_upstream_changed_nothing_the_patch_is_the_result(
    before: Sequence[bytes], after: Sequence[bytes]
) -> None:
    base, theirs = b"".join(before), b"".join(after)
    found = candidates({"f": base}, {"f": base}, {"f": theirs})
    assert [one.files for one in found] == ([{"f": theirs}] if base != theirs else [])


@pytest.mark.parametrize(
    "line",
    ["x\n", "}}\n", "{0}\n", "a b c d e f g h {0}\n", "call({0}, {0}, {0});\n", "{0} " * 200 + "\n"],
    ids=["equal", "braces", "unique", "similar", "words", "long"],
)
def test_hostile_files_take_bounded_time(line: str) -> None:
    base = "".join(line.format(number % 977) for number in range(6_000)).encode()
    ours = "".join(line.format(number % 613) for number in range(6_000)).encode()
    theirs = "".join(line.format(number % (19 if number % 50 == 0 else 977)) for number in range(6_000)).encode()
    start = time.process_time()
    candidates({"f": base}, {"f": ours}, {"f": theirs})
    assert time.process_time() - start < 5
