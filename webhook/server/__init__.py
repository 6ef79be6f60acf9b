"""`accel serve`: sockets, TLS, HTTP, probes, metrics and watched files around one pure function, `admission.admit`."""
