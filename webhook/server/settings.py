"""All settings of `accel serve`, as one frozen value. No I/O: the command line fills it.

Each field is one flag (`cert_file` is `--cert-file`) and one environment variable (`ACCEL_CERT_FILE`).
"""

from typing import Literal

import msgspec

from webhook.errors import BadSetting


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica serves. Times are in seconds."""

    host: str = ""
    """Address that both ports listen on. Empty: all IPv4 and IPv6 addresses, since a Pod does not
    know its own before it starts."""

    port: int = 8443
    """HTTPS port of `/mutate`. Clusters whose firewall allows only the kubelet's port use 10250. 0: any free."""

    metrics_port: int = 8080
    """Plain-HTTP port of `/healthz`, `/readyz` and `/metrics`. Separate from `port`, so that probes and scrapes
    need no certificate and a network policy can tell the two apart. 0: any free."""

    cert_file: str = ""
    """PEM file: the serving certificate, then its intermediates. Watched: a new one is used without a
    restart."""

    key_file: str = ""
    """PEM file: the certificate's private key, not encrypted. Watched like `cert_file`."""

    self_signed: bool = False
    """Create a certificate for localhost in memory, for trying it on your own machine. Excludes the two files."""

    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """Oldest TLS version accepted. Every supported API server speaks 1.3; 1.2 is for proxies in between."""

    client_ca_file: str = ""
    """PEM bundle: only clients with a certificate from one of these CAs are answered. Empty: anyone who can
    connect.

    The API server presents a certificate only if its admission configuration names one for this Service:
    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
    """

    client_names: tuple[str, ...] = ()
    """Common names or DNS names, one of which the client certificate must have. Empty: any that the CA
    signed. Comma-separated names count as several. kubeadm's are `kube-apiserver-kubelet-client` and
    `front-proxy-client`."""

    state_file: str = ""
    """JSON file that `accel certs run` writes: ready only once it says that every webhook entry trusts our CA.
    Empty: somebody else fills `caBundle`, and it is not checked."""

    config: str = ""
    """The site config (YAML). Watched: a changed file is used within seconds, an invalid one is refused. Empty:
    the defaults."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug: a line per decision. info: a line per denial and per change of state."""

    lame_duck: float = 10.0
    """How long to keep serving after SIGTERM, each response with `Connection: close`. Endpoints are removed at
    the same time as the signal is sent, and kube-proxies and API servers take seconds to notice."""

    drain_timeout: float = 10.0
    """How long calls in flight may take after the listener has closed. `lame_duck` and this together must stay
    below the Pod's terminationGracePeriodSeconds (30)."""

    max_bodies: int = 1024
    """Request bodies that may be partially read at once; one more is answered 429 and sent again by the API
    server. A body that arrives whole with its headers does not count. 1024 is more than the burst of a 1,000-Pod
    job leaves open, and its small bodies fit in 64 MiB."""

    def check(self) -> "Settings":
        """These settings, if they can work; raises `BadSetting`."""
        if self.self_signed and (self.cert_file or self.key_file):
            raise BadSetting("--self-signed: makes its own certificate; leave out --cert-file and --key-file")
        if not self.self_signed and not (self.cert_file and self.key_file):
            raise BadSetting("--cert-file and --key-file: both are needed (or --self-signed, to try it locally)")
        if self.client_names and not self.client_ca_file:
            raise BadSetting("--client-names: needs --client-ca-file, or there is no certificate to read names from")
        for flag, port in (("--port", self.port), ("--metrics-port", self.metrics_port)):
            if not 0 <= port <= 65535:
                raise BadSetting(f"{flag}: {port} is not a port (0 to 65535)")
        if self.port and self.port == self.metrics_port:
            raise BadSetting(f"--metrics-port: {self.metrics_port} is --port too; they must differ")
        for flag, seconds in (("--lame-duck", self.lame_duck), ("--drain-timeout", self.drain_timeout)):
            if not 0 <= seconds <= 3600:
                raise BadSetting(f"{flag}: {seconds} is not a number of seconds from 0 to 3600")
        if self.max_bodies < 1:
            raise BadSetting(f"--max-bodies: {self.max_bodies} would refuse everything; at least 1")
        return self
