"""The fixtures of the extender's own tests: warm kernels, and every event that is logged."""

from tests.unit.extender.conftest import _kernels_are_warm, logged

__all__ = ["_kernels_are_warm", "logged"]
