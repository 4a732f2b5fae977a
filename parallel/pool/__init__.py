"""The host's side of a pool: processes that outlive jobs, watched by deadlines, replaced when they die.

attempt: A job under way on its ranks: what each has told, what time is left, and what comes of it.
folder: A pool's folder: logs and rendezvous files, locked by the host that lives.
job: One job as the host sees it: what was asked, what came back, and how it ended.
known: What ranks have found out about this machine's GPUs, so that the next need not.
limits: How long the pool waits, for each thing that may not come.
measuring: What this machine's ranks measure of it, in seconds.
pool: The pool: warm ranks, one per device, that run named functions together or one by one, and survive their faults.
processes: The crew: every rank's process, started, watched and replaced, and the fork server they come from.
rank_process: The host's view of one rank: its process, its connection, and when it was last heard.
replica: A replica: the ranks that do one main job at a time, together, and the process group that they have joined.
server_process: The host's side of a fork server: starting it, asking it for a spare and for ranks, ending it.
spare: A pool's spares: of its fork server and of its ranks, there while those live, and in office when one dies.
supervisor: The thread that owns a pool: it gives jobs to ranks, hears what becomes of them, and looks at the clock.
trial: Trials of this machine: ranks started for a moment on its devices, which meet and add up what each holds, or
    measure.
"""
