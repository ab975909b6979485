"""All stages of a target, one after the other."""
