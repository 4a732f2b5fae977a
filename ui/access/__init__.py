"""Who may come in: addresses, logins, rates, limits and headers, before any route is reached.

address: Where a request comes from, and whether it was meant for this server: addresses, proxies, Host and Origin.
answers: How routes answer: plain JSON that nobody keeps, each error as one sentence with the status that fits, and
    files.
auth: Who asks: the users that may log in, and the name behind a request.
connections: Connections from strangers, and how long each may take to say what it wants.
crowd: Who is connected, by address, and who has to make room when there are too many.
gate: The gate in front of every route, Gradio's included: foreign hosts and origins, and bodies that are too large.
login: Logging in and out, and what is open without: these routes stand before Gradio's own of the same names.
policy: What the page may load and run (its Content-Security-Policy): our own files, and Gradio's own inline scripts.
throttle: Turns for passwords to be tried: guesses wait for each other, and whoever guesses not does not wait for
    them.
tokens: Bearer tokens of programs: a file of their names, scopes and hashes, which is read again whenever it changes.
"""
