"""Known errors, and their search in logs."""
