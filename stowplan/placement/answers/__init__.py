"""The answers for people: where would a gang go, why does it not fit, what would help.

Belongs here: whatever explains a decision or looks at a cluster that is not there. Does not belong
here: deciding (``placing``), wording for kube-scheduler (``reasons``), printing (``cli``). Read
``ask`` and ``answer``; then ``demands`` (what a gang still asks for), ``headroom`` (what domains
could hold of it) and ``joint`` (of several podsets side by side); then ``tally`` and ``explain``
(why not), ``advice`` with ``more_room`` and ``workloads`` (which change helps), and ``overview``
of the tree.
"""
