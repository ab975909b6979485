"""One file per verb: EXAMPLE, options(parser), run(arguments). Groups and summaries are in kz_build/cli/parser.py."""
