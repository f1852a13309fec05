"""``python -m trajopt``: the same as the command ``trajopt``."""

import sys

from trajopt.command_line.cli import main

if __name__ == "__main__":
    sys.exit(main())
