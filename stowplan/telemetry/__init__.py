"""What the process says about itself: log set-up, and the one list of metrics.

Belongs here: how events are written, what is counted and under which closed set of labels.
Does not belong here: deciding what to log or count, serving ``/metrics`` (that is ``serving``), any
knowledge of pods or nodes. Start reading at ``metrics``.
"""
