"""What is told to Kueue and by it: assignments, and what Kueue does with them afterwards.

Belongs here: ``assignment`` and its ``encoding``; ``replace`` of lost nodes and ``resize``, as
Kueue does them; ``release``, which pod gets which node; ``health``, which nodes count as lost. Does
not belong here: our own way to complete a gang (``podsets.complete``).
"""
