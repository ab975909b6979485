"""What every room needs: errors, checks, processes, files, locks, HTTP, YAML, progress."""
