"""Errors and SIGKILL injected by strace into kz and into the git that it starts, over every verb that writes."""
