"""Pure: candidates for a conflict, from the three versions of a patch's files."""
