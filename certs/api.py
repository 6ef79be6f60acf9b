"""Requests to the Kubernetes API: JSON in and out, errors as sentences, credentials re-read.

Objects stay plain JSON and never pass through a typed model: what we write back keeps every field, even
those newer than this code. This file must not know what a Secret or a webhook configuration is for.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
MANAGER = "accel-certs"  # the manager of our writes in managedFields
TIMEOUT_SECONDS = 10.0
WATCH_SECONDS = 240  # the API server ends the watch then; a connection that died silently is noticed a little later

CLOCK_TOLERANCE = timedelta(minutes=1)

Object = dict[str, Any]
Clock = Callable[[], datetime]


class ApiError(Exception):
    """The API refused, or could not be reached (status 0). The message says which request and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(ApiError):
    """No response: the fault may be anywhere between us and the API server."""


class Conflict(ApiError):
    """Somebody else wrote the object since we read it."""


class NotFound(ApiError):
    """There is no such object."""


class NoCredentials(Exception):
    """Neither a kubeconfig nor a service account could be used; the message says what was tried."""


class Api:
    """A client of one API server. Thread-safe."""

    clock_ahead = timedelta(0)
    """By how much our clock is ahead of the API server's, as of its last response; zero if less than a minute."""

    def __init__(self, configuration: Any, clock: Clock) -> None:
        self._clock = clock
        configuration.retries = False  # the caller decides when to retry
        configuration.connection_pool_maxsize = 4
        self._client = client.ApiClient(configuration)
        self._client.user_agent = MANAGER

    def get(self, path: str) -> Object:
        """The object at `path`. Raises ApiError."""
        return self._decoded(self._send("GET", path))

    def post(self, path: str, body: Object) -> Object:
        """Create an object in the collection at `path`. Returns it as stored."""
        return self._decoded(self._send("POST", path, body=body))

    def put(self, path: str, body: Object) -> Object:
        """Replace an object; its resourceVersion must be current (else Conflict). Returns it as stored."""
        return self._decoded(self._send("PUT", path, body=body))

    def patch(self, path: str, operations: list[Object]) -> Object:
        """Apply a JSON patch. Returns the object as stored."""
        return self._decoded(self._send("PATCH", path, body=operations))

    def watch(self, path: str, name: str, changed: Callable[[], None]) -> None:
        """Call `changed` at each event of the one object `name` in the collection `path`, until the watch ends.

        Without a resourceVersion a watch begins with the object's current state, so nothing is missed between two.
        """
        query = [("watch", "1"), ("fieldSelector", f"metadata.name={name}"), ("timeoutSeconds", str(WATCH_SECONDS))]
        response = self._send("GET", path, query=query, timeout=(TIMEOUT_SECONDS, WATCH_SECONDS + 30.0))
        try:
            for _ in response.stream():
                changed()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(0, f"watch of {path}: {error}") from None
        finally:
            response.close()

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: list[tuple[str, str]] | None = None,
        timeout: float | tuple[float, float] = TIMEOUT_SECONDS,
    ) -> urllib3.HTTPResponse:
        """A response with a good status, its body not yet read."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json-patch+json" if method == "PATCH" else "application/json"
        try:
            request = self._client.param_serialize(
                method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = self._client.call_api(*request, _request_timeout=timeout).response
        except (ApiException, ConfigException, urllib3.exceptions.HTTPError, OSError) as error:
            reason = " ".join(str(getattr(error, "reason", None) or error).split())
            raise Unreachable(0, f"{method} {path}: {reason}") from None
        self._compare_clocks(response)
        if response.status >= 400:
            raise _refused(method, path, response)
        checked: urllib3.HTTPResponse = response
        return checked

    def _compare_clocks(self, response: urllib3.HTTPResponse) -> None:
        try:
            ahead = self._clock() - parsedate_to_datetime(response.headers.get("Date", ""))
        except (ValueError, TypeError):
            return  # no date, or one without a zone: nothing to learn
        self.clock_ahead = ahead if ahead > CLOCK_TOLERANCE else timedelta(0)

    def _decoded(self, response: urllib3.HTTPResponse) -> Object:
        try:
            answer: Object = json.loads(response.data)
        except (ValueError, urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(0, f"an incomplete response: {error}") from None
        return answer


def now() -> datetime:
    """The machine's clock, in UTC."""
    return datetime.now(UTC)


def connect(
    kubeconfig: str | None = None, service_account: str = SERVICE_ACCOUNT_DIR, clock: Clock = now, context: str = ""
) -> Api:
    """With that kubeconfig ("": the user's default), or as the Pod's service account, whose token is re-read.

    `context` is one of the kubeconfig's; "": its current one. Raises NoCredentials.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            config.load_kube_config(kubeconfig or None, context or None, configuration)  # type: ignore[no-untyped-call]
        else:
            _as_service_account(configuration, Path(service_account))
    except (ConfigException, OSError, ValueError) as error:
        account = f"the Pod's service account in {service_account}"
        tried = account if kubeconfig is None else f"kubeconfig {kubeconfig or 'of KUBECONFIG or ~/.kube/config'}"
        raise NoCredentials(f"{tried}: {error}") from None
    return Api(configuration, clock)


def _as_service_account(configuration: Any, folder: Path) -> None:
    """Inside a Pod: address from the environment, CA and token from files.

    The token is read for every request: a kubelet renews it, and reading a file is cheaper than a refused call.
    """
    token = folder / "token"
    load = InClusterConfigLoader(str(token), str(folder / "ca.crt"), try_refresh_token=False)  # type: ignore[no-untyped-call]
    load.load_and_set(configuration)  # type: ignore[no-untyped-call]

    def reread(current: Any) -> None:
        current.api_key["BearerToken"] = f"Bearer {token.read_text().strip()}"

    configuration.refresh_api_key_hook = reread


def _refused(method: str, path: str, response: urllib3.HTTPResponse) -> ApiError:
    """The response's own message, and an error type that a caller can act on."""
    try:
        message = str(json.loads(response.data).get("message", ""))
    except (ValueError, AttributeError, urllib3.exceptions.HTTPError, OSError):
        message = ""
    text = f"{method} {path}: {response.status} {response.reason or ''}: {message}"
    kinds: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict}
    return kinds.get(response.status, ApiError)(response.status, text)
