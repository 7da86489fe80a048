"""``python -m stowplan`` is ``stowplan``."""

import sys

from stowplan.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
