"""CRDs of others that the chart's objects are instances of, cut down to the fields that it may use.

They are closed: with strict field validation a misspelt field is an error. Field names after
https://github.com/prometheus-operator/prometheus-operator/blob/main/Documentation/api-reference/api.md
https://cert-manager.io/docs/reference/api-docs/
"""

from typing import Any

from .crd import crd

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
NUMBER = {"type": "integer"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def many(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


RULE = of(alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS) | {"required": ["expr"]}
RULE["properties"]["for"] = TEXT
ISSUER = of(name=TEXT, kind=TEXT, group=TEXT)

SPECS: dict[tuple[str, str], dict[str, Any]] = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): of(
        selector=of(matchLabels=TEXTS), endpoints=many(of(port=TEXT, path=TEXT, interval=TEXT))
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): of(groups=many(of(name=TEXT, rules=many(RULE)))),
    ("cert-manager.io/v1", "Issuer"): of(selfSigned=of(), ca=of(secretName=TEXT)),
    ("cert-manager.io/v1", "Certificate"): of(
        secretName=TEXT,
        duration=TEXT,
        dnsNames=many(TEXT),
        isCA={"type": "boolean"},
        commonName=TEXT,
        privateKey=of(algorithm=TEXT, size=NUMBER, rotationPolicy=TEXT),
        usages=many(TEXT),
        issuerRef=ISSUER,
    ),
}


def crds() -> list[dict[str, Any]]:
    """A CustomResourceDefinition for each."""
    return [crd(version, kind, of(spec=spec)) for (version, kind), spec in SPECS.items()]
