"""Stacks against upstream's versions: verify, history, radar, status, health."""
