"""Rules asked of libraries, apps and .pte files."""
