"""The page: its server, its API and everything a user keeps there, behind one gate.

app: The page as a Gradio app: one tab for each view, our routes in its process, and nothing that leaves the machine.
bundle: The page's own files, built from `ui/web` and shipped: a fixed table, so that no request names a path.
canvas: The one Gradio component of the page: an empty box in which our bundle draws a view.
command: What `latentloom ui` does: open the page, say where it is, and end in order when it is asked to.
errors: What the server's stores refuse beside `ValueError`: what is not there, and what somebody else changed.
listening: A server that listens: its port, its start in a thread of its own, and the limits that it stands behind.
options: The options of `latentloom ui` and `latentloom serve`, and the settings that they mean.
server: Everything that the page's routes stand on, and the order in which it opens and ends.
settings: What the server was started with: where it listens, who may log in, and the folders it may touch.
watchdog: A server whose event loop has not turned for a minute of processor time ends, and says where it hangs.
access/: Who may come in: addresses, logins, rates, limits and headers, before any route is reached.
api/: The HTTP routes of the page, one module for each group of them.
contract/: What goes between the server and the page, each thing defined once.
downloads/: Models that users have fetched from the hub: asked for, queued, counted, found again after a restart.
library/: A user's saved workflows, drafts, shares and apps.
live/: What the page is told while things happen, and the state of a run that it shows.
runs/: Runs of the page: queued, worked off, recorded, found again after a restart.
service/: The service: the page's server, queue and routes for programs, without the page and without Gradio.
store/: Files of each user, counted against a quota, listed by pages.
views/: What the page's panels show of plans, models and devices.
worker/: The process in which runs are made, so that no work of a user's keeps the server from answering.
"""
