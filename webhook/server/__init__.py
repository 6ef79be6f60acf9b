"""`accel serve`: all that touches sockets, files, clocks and signals, around the one pure function `admission.admit`.

How a request flows:

    client ── listener ────► TLS, or not            accepts; limits on who has not finished TLS
           ── connection ──► Head, bytes            HTTP/1.1 and its limits, which are in `connections`
           ── app ─────────► Reply                  `POST /mutate` is decided, all else is short
           ── refusals ────► a count, now a line    who was turned away

And around it:

    replica     one replica's life: start, look at files, leave
    probes      /readyz, /livez, /metrics (`health`, `metrics`) on a thread of their own
    watchdog    ends the process when the event loop is stalled
    tls, watch  the certificate, the site config and the state of `accel certs run`, while others replace the files
    log         JSON lines, bounded and escaped
"""
