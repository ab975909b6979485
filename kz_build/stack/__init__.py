"""A project's patch stacks: files, apply, verdicts, rebase, edit, import, submit, lock."""
