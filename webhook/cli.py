"""The command `accel`: its options, and nothing else; each command's work is in its own module.

Modules are imported when their command is called, so that `accel serve` loads neither rich nor a Kubernetes client.
"""

import io
import os
import sys
from importlib import import_module, util
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from webhook import __version__
from webhook.core.messages import quoted
from webhook.errors import Failure, UserError, printable
from webhook.server.settings import Settings

ELSEWHERE = {"check": ("webhook.check", "check_app"), "certs": ("certs.cli", "certs_app")}
"""Commands with their own typer application: name to module and attribute."""

KUBECTL_PLUGIN = "kubectl-accel"


class Commands(TyperGroup):
    """The commands here, and those elsewhere, which are imported only when needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        there = (name for name, (module, _) in ELSEWHERE.items() if util.find_spec(module))
        return [*super().list_commands(ctx), *there]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None or cmd_name not in ELSEWHERE:
            return found
        module, attribute = ELSEWHERE[cmd_name]
        if util.find_spec(module) is None:
            return None
        command = typer.main.get_command(getattr(import_module(module), attribute))
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Commands,
    help="One annotation turns a Kubernetes workload into a TPU or GPU workload.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="The site config: what a cluster's admin decides.", no_args_is_help=True)
app.add_typer(config_app, name="config")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"accel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options common to all commands."""


def _site(path: str) -> Any:
    from webhook.load import load

    return load(path or None)


def _types(incomplete: str) -> list[str]:
    """Type names with the given prefix, for shell completion."""
    return [name for name in _site("").catalogue.names() if name.startswith(incomplete.lower())]


Config = Annotated[str, typer.Option("--config", envvar="ACCEL_CONFIG", help="Site config file (YAML).")]
Manifests = Annotated[
    list[str], typer.Option("--filename", "-f", help="Manifest, directory, or - for stdin; may be repeated.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace for objects that name none.")]


@app.command()
def inject(
    filename: Manifests,
    output: Annotated[Literal["yaml", "json", "diff"], typer.Option("--output", "-o", help="Format.")] = "yaml",
    config: Config = "",
    namespace: Namespace = "default",
) -> None:
    """Inject manifests offline, as the webhook would: results to stdout, warnings and denials to stderr."""
    from webhook.command import files, inject

    raise typer.Exit(inject.run(list(files.read(filename)), _site(config), namespace, output))


@app.command()
def explain(
    type_: Annotated[
        str, typer.Argument(metavar="TYPE", help="A type name, such as tpu-v4-16 or nvidia-l4.", autocompletion=_types)
    ] = "",
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Explain the objects of a manifest instead.")
    ] = None,
    topology: Annotated[str, typer.Option("--topology", help="A TPU topology other than the default one.")] = "",
    output: Annotated[Literal["text", "json", "yaml"], typer.Option("--output", "-o", help="Format.")] = "text",
    config: Config = "",
    namespace: Namespace = "default",
) -> None:
    """Say what a type means or, with -f, what a manifest's objects will get, and why."""
    if bool(type_) == bool(filename):
        raise typer.BadParameter("give a type name, or -f and a manifest", param_hint="TYPE")
    site = _site(config)
    if filename:
        from webhook.command import explain, files

        raise typer.Exit(explain.run(list(files.read(filename)), site, namespace, output))
    from webhook.command import catalogue, describe, terminal

    hardware = site.catalogue.resolve(type_, topology or None)
    if output == "text":
        terminal.show(catalogue.page(hardware, site))
    else:
        catalogue.show(describe.facts(hardware, site.catalogue), output)


@app.command()
def catalogue(
    pattern: Annotated[str, typer.Argument(help="Part of a name, or a shell pattern such as 'nvidia-*'.")] = "*",
    output: Annotated[Literal["table", "json", "yaml"], typer.Option("--output", "-o", help="Format.")] = "table",
    config: Config = "",
) -> None:
    """List the types that the webhook knows."""
    from webhook.command import catalogue, describe, terminal

    site = _site(config)
    types = catalogue.listed(site, pattern)
    if not types:
        near = catalogue.nearest(site, pattern)
        raise Failure(f"no type matches {quoted(pattern)}" + (f"; nearest: {', '.join(near)}" if near else ""))
    if output == "table":
        terminal.show(catalogue.table(types, site))
    else:
        catalogue.show([describe.facts(hardware, site.catalogue) for hardware in types], output)


@config_app.command("check")
def config_check(
    file: Annotated[
        str, typer.Argument(help="The site config, or a chart's values with `config` in them; - is stdin.")
    ],
) -> None:
    """Read a site config as the webhook would, and say everything that is wrong with it."""
    from webhook.command import config as settings

    raise typer.Exit(settings.check(file))


@config_app.command("show")
def config_show(
    config: Config = "",
    output: Annotated[Literal["yaml", "json"], typer.Option("--output", "-o", help="Format.")] = "yaml",
) -> None:
    """Print every setting with its value, defaults included."""
    from webhook.command import config as settings

    settings.show(_site(config), output)


@app.command()
def demo(
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Your own manifests instead of the examples.")
    ] = None,
) -> None:
    """Start the webhook on this machine, send it manifests as an API server would, and show the results."""
    from webhook.command import demo, files

    raise typer.Exit(demo.run(list(files.read(filename or []))))


def _flag(name: str, text: str) -> Any:
    """A flag of `serve`; `--cert-file` is also ACCEL_CERT_FILE."""
    return typer.Option(name, envvar="ACCEL" + name.replace("-", "_").upper()[1:], help=text)


DEFAULTS = Settings()

Host = Annotated[str, _flag("--host", "Address to listen on; default: all.")]
Port = Annotated[int, _flag("--port", "HTTPS port of /mutate.")]
MetricsPort = Annotated[int, _flag("--metrics-port", "HTTP port of /healthz, /readyz and /metrics.")]
CertFile = Annotated[str, _flag("--cert-file", "Certificate (PEM); watched.")]
KeyFile = Annotated[str, _flag("--key-file", "Its private key (PEM); watched.")]
SelfSigned = Annotated[bool, _flag("--self-signed", "Create a certificate for localhost instead.")]
TlsMinVersion = Annotated[Literal["1.2", "1.3"], _flag("--tls-min-version", "Oldest TLS version accepted.")]
ClientCaFile = Annotated[str, _flag("--client-ca-file", "Answer only clients with a certificate from these CAs (PEM).")]
ClientNames = Annotated[
    list[str] | None, _flag("--client-names", "Names, one of which the client certificate must have.")
]
StateFile = Annotated[str, _flag("--state-file", "State file of `accel certs run`; not ready before it says so.")]
Watched = Annotated[str, _flag("--config", "Site config (YAML); watched.")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], _flag("--log-level", "Log level; debug logs a line per decision.")
]
LameDuck = Annotated[float, _flag("--lame-duck", "Seconds to keep serving after SIGTERM.")]
DrainTimeout = Annotated[float, _flag("--drain-timeout", "Seconds that calls in flight may then take.")]
MaxBodies = Annotated[int, _flag("--max-bodies", "Request bodies that may be partially read at once.")]


@app.command()
def serve(
    host: Host = DEFAULTS.host,
    port: Port = DEFAULTS.port,
    metrics_port: MetricsPort = DEFAULTS.metrics_port,
    cert_file: CertFile = DEFAULTS.cert_file,
    key_file: KeyFile = DEFAULTS.key_file,
    self_signed: SelfSigned = DEFAULTS.self_signed,
    tls_min_version: TlsMinVersion = DEFAULTS.tls_min_version,
    client_ca_file: ClientCaFile = DEFAULTS.client_ca_file,
    client_names: ClientNames = None,
    state_file: StateFile = DEFAULTS.state_file,
    config: Watched = DEFAULTS.config,
    log_level: LogLevel = DEFAULTS.log_level,
    lame_duck: LameDuck = DEFAULTS.lame_duck,
    drain_timeout: DrainTimeout = DEFAULTS.drain_timeout,
    max_bodies: MaxBodies = DEFAULTS.max_bodies,
) -> None:
    """Run the webhook. Every option is an environment variable too: --cert-file is ACCEL_CERT_FILE."""
    settings = Settings(
        host=host,
        port=port,
        metrics_port=metrics_port,
        cert_file=cert_file,
        key_file=key_file,
        self_signed=self_signed,
        tls_min_version=tls_min_version,
        client_ca_file=client_ca_file,
        client_names=tuple(client_names or ()),
        state_file=state_file,
        config=config,
        log_level=log_level,
        lame_duck=lame_duck,
        drain_timeout=drain_timeout,
        max_bodies=max_bodies,
    ).check()
    from webhook.server import replica

    raise typer.Exit(replica.serve(settings))


def _user_message(error: Exception) -> tuple[str, int] | None:
    """The message and exit code of an error that the user can fix; None if it is ours."""
    if isinstance(error, UserError):
        return str(error).replace("accel.io/type: ", ""), error.exit_code
    if isinstance(error, OSError):
        return printable(": ".join(filter(None, (error.filename, error.strerror or str(error))))), 1
    return None


def main() -> None:
    """Entry point of `accel` and `kubectl-accel`. Users see no traceback unless ACCEL_DEBUG is set."""
    name = Path(sys.argv[0]).name
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the locale lacks must not be fatal
    try:
        app(prog_name="kubectl accel" if name == KUBECTL_PLUGIN else "accel")
    except BrokenPipeError:
        # The reader of our output has closed it: `accel catalogue | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if os.environ.get("ACCEL_DEBUG"):
            raise
        text = " ".join(str(error).split())[:300]
        bug = (f"{type(error).__name__}: {text} (a bug; ACCEL_DEBUG=1 shows where)", 2)
        line, code = _user_message(error) or bug
        sys.stderr.write("\n".join(map(printable, f"error: {line}".split("\n"))) + "\n")
        sys.exit(code)
