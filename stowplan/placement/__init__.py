"""The decision, pure: who waits, what is free, who holds which seat.

Belongs here: everything that turns Kubernetes objects into Placed, Refused or Ranked. Does not
belong
here: I/O, clocks (time is an argument), HTTP. Used by the extender, the placer and the command
    line. Read in the order ``records``, ``state``, ``gangs``, ``ledger``, ``decide``; the wording
    of every refusal is in ``reasons``, the names of all keys in ``keys``.
"""
