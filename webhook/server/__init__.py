"""`accel serve`: all that touches sockets, files, clocks and signals, around the one pure function `admission.admit`.

How a request flows:

    client ── listener ────► TLS, or not            accepts; limits on connections that have not finished TLS
           ── connection ──► Head, bytes            HTTP/1.1 and its limits, which are in `limits`
           ── app ─────────► Reply                  decides `POST /mutate`, answers everything else briefly
           ── refusals ────► a count, and a line    which clients were rejected

And around it:

    replica     the life of one replica: start, poll files, shut down
    probes      /readyz, /livez, /metrics (`health`, `metrics`) on their own thread
    watchdog    ends the process if the event loop is stalled
    tls, watch  the certificate, the site config and the state of `accel certs run`, whose files others replace
    log         JSON lines, bounded and escaped
"""
