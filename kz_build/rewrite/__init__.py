"""Semantic patches: counted rules that make a mail again on another version of upstream."""
