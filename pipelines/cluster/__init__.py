"""Several machines, by Ray: each gives replicas to jobs, or ranks to one job that reaches over all.

agent: The agent: what works for us on one machine of a cluster, as an actor of Ray; it owns that machine's pool.
cluster: A Ray cluster that is called like a pool: jobs go to the agents of its machines, least busy first.
head: The head of a Ray cluster: joined, watched, because nothing runs without it, and left when the work is done.
job: A job under way on one or more machines of a cluster: what it tells, how it ends, and that all its parts end.
machine: A machine of a Ray cluster as the host sees it: its agent, asked by name, and Ray's errors in our words.
"""
