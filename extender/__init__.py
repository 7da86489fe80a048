"""Answers kube-scheduler: which of these nodes, and in what order.

Belongs here: the extender/v1 protocol over HTTP, and nothing that decides (``stowplan.placement``).
Read in the order ``wire`` (what travels), ``handlers`` (one function per verb), ``app``
(lifetimes).
"""
