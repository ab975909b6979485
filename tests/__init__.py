"""The tests keep bytecode, whatever the caller's environment says.

Without it each worker compiles all tests again, with pytest's assertions, and each process of kz compiles kz.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
