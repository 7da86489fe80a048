"""The argument parser of every command."""

import argparse
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, with what to do next."""

    def __init__(self, **options: Any) -> None:
        """Leave descriptions as they are written, and take no flag that is not written out."""
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # a flag added later must not change what an old script means
            **options,
        )

    def error(self, message: str) -> NoReturn:
        """Leave with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")
