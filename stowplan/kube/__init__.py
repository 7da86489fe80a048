"""Reads Kubernetes objects: from files that hold what kube-apiserver would have answered.

Belongs here: where objects come from, how they are parsed, when they changed.
Does not belong here: any knowledge of our domain. Objects leave as plain JSON values; what they
mean is for others to say. Start reading at ``files``.
"""
