"""Slow, obvious answers that the fast code is compared with.

Here: one podset (``fit`` on top of ``domains``, which read a request as ``asking`` does), balanced
placement (``balanced``), podsets with their own levels (``roles``), the rest of a gang
(``completing``), growth and a lost node as Kueue treats them (``replacement``), the laws that every
answer obeys (``laws``), Kubernetes quantities (``quantity``), and a cluster as the shared cases
describe it (``cluster``). All is pure Python, written from the specification and from
``docs/placement.md`` alone. Not here: anything that imports ``stowplan``; an oracle that shares
code with what it judges proves nothing. Start reading at ``fit.place``.
``test_fit_replays_cases.py`` is what makes the oracle trustworthy.
"""
