"""The command `accel check`: its options, and the order of reading, judging and printing."""

from typing import Annotated, Literal

import typer

from certs import api
from webhook.check import report
from webhook.check.checks import judge
from webhook.check.cluster import NAME, NAMESPACE, Cluster
from webhook.check.facts import Facts, Release, Unread
from webhook.command import terminal

check_app = typer.Typer(add_completion=False)


@check_app.command()
def check(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the release; else found.")] = "",
    release: Annotated[str, typer.Option("--release", help="Name of the Helm release; else found.")] = "",
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", help="Kubeconfig file; default: KUBECONFIG or ~/.kube/config.")
    ] = "",
    context: Annotated[
        str, typer.Option("--context", help="Context of the kubeconfig; default: its current one.")
    ] = "",
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="Format.")] = "table",
) -> None:
    """Check a cluster with your own permissions: what is wrong, and what to do. Exit code 1 if a check failed."""
    facts = _facts(release, namespace, kubeconfig, context)
    judged = judge(facts)
    if output == "json":
        terminal.write(report.as_json(judged, facts))
    else:
        terminal.show(report.page(judged))
    raise typer.Exit(int(report.failing(judged)))


def _facts(release: str, namespace: str, kubeconfig: str, context: str) -> Facts:
    try:
        way = api.connect(kubeconfig, context=context)
    except api.NoCredentials as error:
        unknown = Release(release or NAME, namespace or NAMESPACE)
        return Facts(release=unknown, now=api.now(), version=Unread("a kubeconfig", 0, str(error)))
    return Cluster(way, release, namespace).facts()
