"""What every server shares: listening, probes, draining, certificates that reload.

Belongs here: everything between a socket and an aiohttp application that was built elsewhere.
Does not belong here: routes with a meaning of their own, settings, decisions. Start reading at
``run``, then ``listener``.
"""
