"""One file per verb: EXAMPLE, options(parser), run(arguments), which returns nothing, or an exit code. Groups and summaries are in kz_build/cli/parser.py."""
