"""Slow, obvious answers that the fast code is compared with.

Here: the placement rules (``fit`` on top of ``domains``), Kubernetes quantities (``quantity``), and
a cluster as the shared cases describe it (``cluster``), all pure Python and written from the
specification alone. Not here: anything that imports ``stowplan``; an oracle that shares code with
what it judges proves nothing. Start reading at ``fit.place``. ``test_fit_replays_cases.py`` is what
makes the oracle trustworthy.
"""
