"""The decision, pure: who waits, what is free, who holds which seat.

Belongs here: everything that turns Kubernetes objects into Placed, Refused or Ranked, and says why.
Does not belong here: I/O, clocks (time is an argument), HTTP. Used by the extender, the placer and
the command line. Read ``docs/placement.md``, then in this order:

- the picture: ``records``, ``state``, ``gangs``, ``owners``, ``ledger``, ``cluster``;
- the rules: ``request`` and ``rules``, then ``podsets`` (how podsets are placed) and ``placing``
  (a whole gang);
- the answers: ``decide`` for kube-scheduler; ``answers`` for people, about a gang or about a file
  of ``jobs``;
- ``kueue``: what is told to Kueue and by it.

The wording of every refusal is in ``reasons``, the names of all keys in ``keys``.
"""
