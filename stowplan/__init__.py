"""stowplan: places every gang of pods into one topology domain, or says why it cannot.

Read in this order: ``topology`` (the science), ``placement`` (the decision), then the servers that
ask it: ``extender`` beside this package, and ``cli`` for people.
"""
