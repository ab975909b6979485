"""The report of a line: the records of all stages in one JSON, and its views."""
