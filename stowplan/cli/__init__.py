"""``stowplan``: the command line, and the settings that it and the configuration file share.

Belongs here: commands, flags, settings and where each came from, what is printed for people.
Does not belong here: anything that a server needs once it runs. Start reading at ``main``, then
``settings``.
"""
