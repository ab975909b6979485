"""git's plumbing: objects, refs, log, worktrees, fast-import."""
