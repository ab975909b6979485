"""The whole way of a target: every verb's step after the other, and the report."""
