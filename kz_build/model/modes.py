"""Modes of what stands in git's trees, as they are written there."""

FILE = "100644"
LINK = "120000"
"""A symbolic link, whose content is where it points."""
SUBMODULE = "160000"
FOLDER = "40000"
"""A folder; in a Blob also what is no file but takes its place: a folder (its data the paths below it, joined by NUL), a
submodule, or a file above that leaves no room for a folder (both without data)."""
