"""`helm test`: creates an annotated Pod as a dry run, and checks what would be stored."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request

namespace, credentials, image = sys.argv[1:]
container = {
    "name": "main",
    "image": image,
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
pod = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "accel-injector-dry-run", "annotations": {"accel.io/type": "tpu-v4-8"}},
    "spec": {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    },
}
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
with open(f"{credentials}/token") as file:
    headers = {"Authorization": f"Bearer {file.read().strip()}", "Content-Type": "application/json"}
request = urllib.request.Request(
    f"https://{address}/api/v1/namespaces/{namespace}/pods?dryRun=All", json.dumps(pod).encode(), headers
)
trust = ssl.create_default_context(cafile=f"{credentials}/ca.crt")
# No proxy: the API server is called directly.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
try:
    with opener.open(request, timeout=30) as answer:
        stored = json.load(answer)
except urllib.error.HTTPError as error:
    sys.exit(f"the API server refused an annotated Pod in {namespace}: {json.load(error)['message']}")
limits = stored["spec"]["containers"][0].get("resources", {}).get("limits", {})
if limits.get("google.com/tpu") != "4":
    sys.exit(f"a Pod with tpu-v4-8 in {namespace} came back without its four chips; its limits: {limits}")
sys.stdout.write(f"a Pod with tpu-v4-8 in {namespace} would be stored with {limits['google.com/tpu']} google.com/tpu\n")
