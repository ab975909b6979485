"""One file a verb: EXAMPLE, options(parser), run(arguments). Its group and summary stand in kz_build/cli/parser.py."""
