"""The nightly run: what moves by itself becomes a pull request, what needs a person an issue."""
