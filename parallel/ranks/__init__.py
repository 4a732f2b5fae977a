"""The ranks' side of a pool: what runs in its processes, and what they and the host say to each other.

channel: A connection: messages as small pieces of JSON, beside them bodies of plain data with tensors in memfds.
fork_server: The fork server: a small process that has imported what ranks need, and forks one when it is asked to.
grants: Grants: how far the ranks of a job may go, in memory that they share with the host.
guard: No process outlives the one it works for: what a child does so that the kernel ends it with its parent.
heap: The heap of a process that computes on a CPU: what is large goes back to the system as soon as it is freed.
membership: A rank's membership in process groups that come and go: joining one, whose wires are tried, and leaving
    it without the others.
messages: The protocol of a pool: what host, fork server and ranks say to each other.
rank: A rank: a forked process that holds one device, joins process groups and runs named functions.
rank_job: One job as a rank sees it: what its work reports to, and how it ends.
seat: A rank's seat in one job: which of how many ranks it is, and its device.
shortage: What to tell a user whose system has run out of something.
unasked: What libraries ask of GPUs while the fork server imports them, answered without CUDA.
"""
