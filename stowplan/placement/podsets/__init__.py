"""The placement rules: podsets of one gang -> leaves of the tree, or why there are none.

Belongs here: the rules of ``docs/placement.md`` over the arrays of one view. Does not belong here:
pods, gangs and seats (``placing``), the search for a domain itself (``topology``). ``plan`` puts a
request into level numbers, ``podset`` places one podset, ``roles`` several, ``complete`` what is
missing of one; ``shortage`` says what a misfit lacks.
"""
