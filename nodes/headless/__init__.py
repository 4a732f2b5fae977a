"""Runs from the command line: one or many, claimed, interrupted, reported.

foretold: What is known of each point of a sweep before the first is begun, and how the command line tells it.
headless: Run a workflow file without a page: sweeps, one folder per run, resume, manifests; what became of each run.
job: What is asked of a headless run: a workflow with values, the points of a sweep, and what is known of them before.
job_list: Lists of jobs: several files, or lines of JSON that name them, as the points of one run; their folders, and
    shares.
lifetime: A process at work: a folder is its own until it ends, however it ends; and what Ctrl-C and SIGTERM do to it.
openjd: A workflow with its values and its sweep as a template of the Open Job Description, which render farms run.
options: The options of the commands; those of the page are in `ui/options.py`.
plans: What `latentloom plan` answers: how a model, or each denoise of a workflow, would run on a machine.
rerun: Make a run again by its manifest: what differs from then is told first, whether its bytes are the same last.
stream: The lines of JSON that a command prints for programs: one object a line, each with a version, a number and its
    time.
terminal: What a headless run tells a terminal: events as lines or as JSON, reports, and how a sweep ended.
workflow_files: Where workflows come from: a file of their own or ComfyUI's, or a picture, video or sound; and what they
    may read.
"""
