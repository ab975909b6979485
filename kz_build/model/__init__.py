"""Plain data and pure functions on it: no file, process, socket or clock."""
