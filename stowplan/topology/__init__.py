"""The science: levels, domains, capacity and fit; arrays in, arrays out.

Belongs here: what is true of any cluster, with no pod, no clock and no I/O in sight. Does not
belong
here: who asks, who holds a seat, what a refusal is called (``placement``). Read in the order
``levels``, ``tree``, ``capacity``, ``fit`` (how much room), ``choose`` (which domain), ``assign``
(how many pods on which leaf). Section numbers in comments are those of the domain-fit
specification.
"""
