"""Objects that make pods -> the gangs that their controllers would make, for questions ahead.

Belongs here: what a controller does with a template (``controllers``, ``model_deployments``,
and ``templates`` for what the pods of one inherit), ``expand`` for a whole file, and what of it is
``already_there``. Does not belong here: gangs of
pods that exist (``gangs``).
"""
