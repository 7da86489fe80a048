"""What can be chosen about logs; apart from ``logs``: commands that log nothing start faster."""

from typing import Literal, get_args

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

FORMATS: tuple[Format, ...] = get_args(Format)
LEVELS: tuple[Level, ...] = get_args(Level)
