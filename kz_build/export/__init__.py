"""Recipes: preflight, environments, the export itself, what it probes."""
