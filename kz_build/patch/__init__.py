"""The patch engine: diffs, hunks, where they go, verdicts. Pure: bytes in, bytes out."""
