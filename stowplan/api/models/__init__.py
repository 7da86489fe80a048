"""Kubernetes objects as far as we read them; everything else in them is passed over.

Belongs here: frozen pydantic models that mirror the peer's names. Does not belong here: what the
fields mean for placement (``placement``).
"""
