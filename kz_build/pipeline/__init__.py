"""All stages of a target, one after the other, and the report."""
