"""Keeps our picture like the cluster, and the cluster like what was decided.

Belongs here: loops that follow kube-apiserver and write to it. Does not belong here: decisions
(``placement``), how the server is spoken to (``kube``), answers to others (``extender``). Start
reading at ``live``.
"""
