"""Gets Kubernetes objects, from kube-apiserver or from files that hold what it would have answered.

Belongs here: where objects come from and go to, how they are parsed, when they changed, who of
several replicas leads. Does not belong here: any knowledge of our domain. Objects leave unread;
what they mean is for others to say.

- From a server: ``access`` says how it is reached, ``client`` asks it, ``reflector`` follows one
  kind of object, ``lease`` elects a leader.
- From files: ``files``, then ``reading``.
"""
