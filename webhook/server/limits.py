"""Limits of each connection and of all together: `listener`, `connection` and `connections` enforce them.

Those of an object are in `core/limits.py`, those of a file in `core/yaml/file_limits.py`.
"""

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """What one connection may use, and what all together may. Times are in seconds, sizes in bytes."""

    idle: float = 120.0
    """An API server keeps idle connections for 90 s and does not retry a POST on a connection that we close, so
    it must be the one that closes. A connection without a request yet is no different: Go opens some in
    reserve.
    Source: net/http DefaultTransport, IdleConnTimeout.
    """

    handshake: float = 5.0
    """Nobody waits longer for a TLS handshake: with our chart the API server gives the whole call 5 s."""

    shutdown_timeout: float = 2.0
    """How long a closing TLS connection may take to flush its data and exchange close_notify."""

    read: float = 10.0
    """From a request's first byte to its last. A review is written in one go."""

    answer: float = 30.0
    """From a request's last byte until its response has been read: the longest that an API server waits."""

    head: int = 64 * 1024
    """Request line and headers. An API server sends about 300."""

    body: int = 7 * 1024 * 1024
    """An API server accepts objects of up to 3 MiB, and a review can contain two, old and new.
    Source: sigs.k8s.io/controller-runtime v0.25.2 pkg/webhook/admission/http.go
    """

    request: int = 16 * 1024 * 1024
    """A whole request on the wire: twice the largest body, so that neither chunk framing nor trailers
    nor the rest of a refused body can be endless."""

    bodies: int = 1024
    """Bodies that may be partially read at once; one more is answered 429. One that arrives whole does not count."""

    half_read: int = 32 * 1024 * 1024
    """Partially read bodies of all connections together: four of the largest."""

    small: int = 64 * 1024
    """A body up to this size is exempt from `half_read`, so that large ones cannot keep it out."""

    unsent: int = 32 * 1024 * 1024
    """Responses of all connections that their clients do not read. Beyond it, the one that has waited longest is cut
    off."""

    poll_interval: float = 1.0
    """How often connections and watched files are checked: all times above may be exceeded by this much."""

    pipeline: int = 16
    """Requests that may arrive in one read. API servers do not pipeline."""

    arriving: int = 1000
    """Connections whose first TLS message is incomplete; one more closes the oldest."""

    handshakes: int = 400
    """Connections in the TLS handshake; one more closes the oldest. A genuine client finishes in milliseconds,
    and all API servers of a cluster together open some hundreds at once."""

    connections: int = 2000
    """One more closes the one that has been idle longest."""
