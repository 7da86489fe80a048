"""The objects people write and the peers send, and every rule about them, once.

Belongs here: models of Kubernetes and stowplan objects, rule tables, the exception family.
Does not belong here: decisions about placement, I/O, clocks. Start reading at ``errors``, then
``models``.
"""
