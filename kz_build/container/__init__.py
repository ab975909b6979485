"""Containers: the daemon, the sandbox, tar streams."""
