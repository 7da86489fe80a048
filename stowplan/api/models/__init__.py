"""Kubernetes objects as far as we read them; everything else in them is passed over.

Belongs here: frozen msgspec structs that mirror the peer's names (ADR 11), and how JSON becomes
one. Does not belong here: what the fields mean for placement (``placement``).
"""
