"""Manifests as text: what changes in them, what must not, and what cannot be read."""

import json
import random
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonpatch
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from tests.support.checkout import EXAMPLES
from tests.support.manifest import HEAD, JOBSET, POD, POD_AFTER, SITE, after, only_added
from tests.support.yaml_text import Writer, operations, value
from webhook import load
from webhook.core.messages import Denied
from webhook.core.site import Site
from webhook.core.yaml import nodes
from webhook.errors import BadManifest
from webhook.manifest import inject
from webhook.manifest.edit import rewrite, spliced
from webhook.manifest.inject import injected, results


def test_adds_lines_and_changes_none() -> None:
    """What is added stands where a person would have written it."""
    assert POD_AFTER == after(POD)


def test_comments_quotes_and_indentation_stay() -> None:
    """Every byte of the user's lines is theirs."""
    text = """\
# top

apiVersion:   v1
kind: "Pod"  # quoted
metadata:
    annotations:
        'accel.io/type': nvidia-l4   # which
    name: p
spec:
    # why two
    containers:
        - name: a
          args: ["--x",   '--y'] # odd blanks

          # nothing below
        - name: b

    restartPolicy: Never
# the end
"""

    now = after(text)

    assert only_added(text, now)
    assert "        accel.io/injected: nvidia-l4\n" in now
    assert "          resources:\n              limits:\n" in now
    assert "    tolerations:\n        - key: nvidia.com/gpu\n" in now


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("resources: {}", 'resources:\n      limits:\n        nvidia.com/gpu: "1"\n      requests:'),
        ("resources: {} # later", 'resources: # later\n      limits:\n        nvidia.com/gpu: "1"'),
        ("resources:", 'resources:\n      limits:\n        nvidia.com/gpu: "1"\n      requests:'),
        ("resources: null  # c", "resources:  # c\n      limits:\n"),
        (
            "resources: {limits: {cpu: 1}}",
            'resources: {limits: {cpu: 1, nvidia.com/gpu: "1"}, requests: {nvidia.com/gpu:',
        ),
        (
            "resources: {limits: {cpu: 1,},}",
            'resources: {limits: {cpu: 1, nvidia.com/gpu: "1"}, requests: {nvidia.com/gpu:',
        ),
        (
            "resources:\n      limits:\n        # one\n        cpu: 1",
            '# one\n        cpu: 1\n        nvidia.com/gpu: "1"\n',
        ),
        ("resources:\n      limits: ~", 'resources:\n      limits:\n        nvidia.com/gpu: "1"\n      requests:\n'),
    ],
)
def test_parents_in_every_spelling(before: str, now: str) -> None:
    """Missing, empty, null, flow and block parents are each filled in their own style."""
    assert now in after(POD + f"    {before}\n")


def test_metadata_comes_first() -> None:
    """A pod template's new metadata stands above its spec, between brackets too."""
    head = "apiVersion: batch/v1\nkind: Job\nmetadata: {annotations: {accel.io/type: nvidia-l4}}\nspec:\n  "

    assert "  template:\n    metadata:\n      annotations:\n" in after(
        head + "template:\n    spec:\n      containers: [{name: a}]\n"
    )
    assert "template: {metadata: {annotations: {" in after(head + "template: {spec: {containers: [{name: a}]}} # c\n")


def test_json_stays_json() -> None:
    """A JSON file is YAML too, and must not become a mixture."""
    text = json.dumps(yaml.safe_load(POD), indent=4) + "\n"

    now = after(text)

    assert yaml.safe_load(POD_AFTER) == json.loads(now)
    assert '\n    "nodeSelector": ' in now.replace("        ", "    ")


@pytest.mark.parametrize("text", [POD.replace("\n", "\r\n"), "\ufeff" + POD, POD.rstrip("\n")])
def test_line_ends_and_byte_order_mark_stay(text: str) -> None:
    """Windows line ends, a byte order mark and a missing final newline are kept as they are."""
    now = after(text)

    assert yaml.safe_load(POD_AFTER) == yaml.safe_load(now.removeprefix("\ufeff"))
    assert text.startswith("\ufeff") == now.startswith("\ufeff")
    assert text.endswith("\n") == now.endswith("\n")
    assert ("\r\n" in text) != bool(re.search(r"(?<!\r)\n", now))


def test_text_at_the_end_without_newline_stays_without() -> None:
    """A script that ends the file keeps its last character, though lines follow it now."""
    text = HEAD + "spec:\n  containers:\n  - name: a\n    args:\n    - |\n      echo"

    assert "echo" == yaml.safe_load(after(text))["spec"]["containers"][0]["args"][0]
    assert "    - |-\n      echo\n    resources:" in after(text)


@pytest.mark.parametrize("header", ["|", "|-", "|+", ">", "|2", "|  # script"])
def test_block_scalars_before_an_addition(header: str) -> None:
    """Whatever its kind, a script above the addition has the same value as before."""
    text = HEAD + f"spec:\n  containers:\n  - name: a\n    args:\n    - {header}\n      one\n\n      two\n\n\n"
    before = yaml.safe_load(text)["spec"]["containers"][0]["args"]

    now = after(text)

    assert before == yaml.safe_load(now)["spec"]["containers"][0]["args"]
    assert only_added(text.rstrip("\n"), now)


def test_scalars_are_kubectl_s() -> None:
    """Values as `kubectl annotate --local -o json` prints them: neither YAML 1.1 nor 1.2."""
    resolved = {
        "1e3": 1000, "yes": True, "y": True, "oN": "oN", "2020-01-01": "2020-01-01", "190:20:30": "190:20:30",
        "010": 8, "08": 8, "0x1F": 31, "0X1f": 31, "0b101": 5, "0o17": 15, "0o8": "0o8", "1_000": 1000, "+1": 1,
        "-0x1f": -31, ".5": 0.5, "+.5": 0.5, "1.": 1, "1e-2": 0.01, "1e400": "1e400", "~": None, "": None,
        "TRUE": True, ".e5": ".e5", "_1": "_1", "-_1": -1, ".infinity": ".infinity", "1e22": 1e22, "100m": "100m",
    }  # fmt: skip

    assert resolved == {text: nodes.resolve(text) for text in resolved}
    assert all(type(resolved[text]) is type(nodes.resolve(text)) for text in resolved)


def test_odd_quantities_reach_the_rules_as_numbers() -> None:
    """`1e3` must be read as a number, as kubectl does, whatever it means to the user."""
    assert "cpu: 1e3\n" in after(POD + "    resources:\n      limits:\n        cpu: 1e3\n")


TWO = """\
  - name: one
    template: &worker
      spec:
        template:
          spec:
            # the worker
            containers:
            - name: main
  - name: two
    template: {two}
"""


def test_an_alias_stays_where_both_get_the_same() -> None:
    """`*worker` is still right when `&worker` has the edits."""
    now = after((JOBSET + TWO).format(type="tpu-v4-8", two="*worker"))
    jobs = yaml.safe_load(now)["spec"]["replicatedJobs"]

    assert "template: *worker" in now
    assert jobs[0]["template"] == jobs[1]["template"]
    assert "google.com/tpu" in str(jobs[1])


def test_an_alias_is_written_out_where_they_differ() -> None:
    """An edit of an anchor must not reach another user of it."""
    text = POD + "  - &b\n    name: b  # keep\n    image: z\n  - <<: *b\n    name: c\n"
    text = text.replace("accel.io/type: nvidia-l4", "accel.io/type: nvidia-l4\n    accel.io/container: b")

    now = after(text)
    containers = yaml.safe_load(now)["spec"]["containers"]

    assert ["resources" in c for c in containers] == [False, True, False]
    assert {"name": "c", "image": "z"} == containers[2]
    assert "name: b  # keep" in now


def test_several_documents_and_lists() -> None:
    """Only the documents and items that asked change; separators, empty documents and comments stay."""
    other = "# not ours\napiVersion: v1\nkind: ConfigMap\ndata: {a:   b, yes: no}\n"
    item = "- " + POD.replace("\n", "\n  ").rstrip(" ")
    text = f"---\n{other}--- # second\n{POD}---\n---\napiVersion: v1\nkind: List\nitems:\n{item}...\n# end\n"

    now = after(text)

    assert only_added(text, now)
    assert now.startswith(f"---\n{other}--- # second\n{POD_AFTER}---\n---\n")
    assert 2 == now.count("nvidia.com/gpu\n")
    assert [1, 2, 3, 4] == [r.number for r in results(text, SITE)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "---\n---\n",
        "just text\n",
        "- a\n- b\n",
        "values: 1\n",
        "apiVersion: v1\nkind: ConfigMap\ndata: {}\ndata: {a: b}\n",
        "apiVersion: example.com/v1\nkind: Thing\nx: !custom {a: 0777, b:   [1 ,2]}\n",
        "apiVersion: [v1]\nkind: {}\n",
        "apiVersion: v1\nkind: List\nitems: null\n",
        POD.replace("    accel.io/type: nvidia-l4\n", "    other: x\n"),
        POD.replace("nvidia-l4", "none"),
    ],
)
def test_what_did_not_ask_stays_byte_for_byte(text: str) -> None:
    """Unknown kinds, documents without a kind, and objects without keys of ours."""
    assert text == injected(text, SITE)[0]


def test_a_kind_that_is_not_known_but_asks_gets_a_warning() -> None:
    """Silence would look like success."""
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {annotations: {accel.io/type: tpu-v4-8}}\n"

    assert (text, ("accel.io: kind Thing is not known to accel-injector: left alone",)) == injected(text, SITE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "f.yaml:2:1: tab in indentation; use spaces"),
        ("a: b: c\n", "f.yaml:1:5: mapping values are not allowed in this context"),
        ("a: 1\n---\nb: *x\n", "f.yaml:3:4: unknown alias *x: no &x before it"),
        ("a: &x [*x]\n", "f.yaml:1:8: unknown alias *x: no &x before it"),
        ("a: \x07\n", "f.yaml:1:4: a character that YAML does not allow: control characters are not allowed"),
        (POD + "kind: Pod\n", 'f.yaml:11:1: duplicate key "kind"'),
        (POD.replace("nvidia-l4", "8"), 'f.yaml:6:20: annotations are strings: write accel.io/type: "8"'),
        (POD.replace("name: p", "name: .inf"), "f.yaml:4:9: a number that JSON cannot represent"),
        ("a: {{ .Values.b }}\n", "f.yaml:1:5: a template, not a manifest"),
        ("{{- if .Values.b }}\na: b\n", "f.yaml:1:3: a template, not a manifest: render it first"),
        ("a: !!int x\n", "f.yaml:1:4: not a value of type !!int"),
        ("? [a]\n: b\n", "f.yaml:1:3: a key that is not a scalar"),
        ("a: " + "[" * 3000, "f.yaml:1:"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(text: str, message: str) -> None:
    """File, line, column, and what is wrong there."""
    with pytest.raises(BadManifest) as raised:
        injected(text, SITE, filename="f.yaml")

    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_aliases_of_aliases_end_in_an_error() -> None:
    """A few lines can stand for billions of values."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]

    with pytest.raises(BadManifest, match="aliases stand for more than 5,200 keys and values"):
        injected("\n".join(rows), SITE)


def test_a_denial_is_raised_with_the_webhook_s_words() -> None:
    """Offline and online say the same."""
    with pytest.raises(Denied) as raised:
        injected(POD.replace("nvidia-l4", "tpu-v4-17"), SITE)

    assert "tpu-v4-16" in raised.value.message


def test_the_namespace_is_the_object_s_own_or_the_given_one() -> None:
    """Rules for namespaces hold offline too."""
    site = Site.parse(b"placements: {spot: {nodeSelector: {a: b}, namespaces: [team-a]}}", "x", load.builtin())
    text = POD.replace("nvidia-l4\n", "nvidia-l4\n    accel.io/placement: spot\n")

    assert "a: b" in injected(text, site, "team-a")[0]
    with pytest.raises(Denied):
        injected(text, site, "team-b")
    assert "a: b" in injected(text.replace("name: p", "namespace: team-a"), site, "team-b")[0]


def test_files_join_into_one_stream() -> None:
    """Each file's documents stay apart, whatever it begins and ends with."""
    files = [POD.rstrip("\n"), "# c\n---\n" + POD, "", POD, "\ufeff" + POD, '{"a": 1}']

    stream = inject.joined(files)

    assert [yaml.safe_load(f.removeprefix("\ufeff")) for f in files if f] == list(yaml.safe_load_all(stream))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_injected_and_keep_every_line(path: Path) -> None:
    """What the documentation shows works, and asks for something."""
    text = path.read_text()
    gone = re.compile(r"accel\.io/tpu-v4-8: 1$")

    now = after(text)

    assert now != text
    assert only_added("\n".join(line for line in text.splitlines() if not gone.search(line)), now)


@given(st.randoms(use_true_random=False), st.integers(1, 5))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_additions_to_any_layout_keep_every_comment(random: random.Random, number: int) -> None:
    """Whatever the style: the result means what the operations say, and no comment is lost."""
    root, writer = value(random), Writer(random)
    text = writer.text(root)
    document = next(nodes.documents(text))
    assert root == nodes.plain(document.root)
    added = operations(random, root, number)
    want: Any = jsonpatch.apply_patch(root, added)

    rewritten = rewrite(document, added)
    now = rewritten.text

    assert [want] == [nodes.plain(d.root) for d in nodes.documents(now)]
    assert now == spliced(text, rewritten.splices)
    if rewritten.kept:
        assert all(comment in now for comment in writer.comments)
        assert ("\r\n" in text) != bool(re.search(r"(?<!\r)\n", now))


@given(st.text(alphabet="ab:-[]{},&*!|>'\"#?%@ \t\n\r.<~1é\ufeff\x85\u2028", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever the bytes: the same bytes again, or one line that says why not."""
    problem = ""
    try:
        now = injected(text, SITE)[0]
    except BadManifest as error:
        now, problem = text, str(error)

    assert text == now
    assert re.fullmatch(r"(-:\d+:\d+: [^\n]+)?", problem)


@given(st.integers(0, len(POD) - 1), st.sampled_from(list("ab:-[]{},&*!|>'\"#?%@ \t\n\r.<~1é")), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_slip_of_the_finger_never_breaks_more(where: int, letter: str, insert: bool) -> None:
    """One wrong character in a manifest: injected, left alone, denied or refused, and never another value."""
    text = POD[:where] + letter + POD[where + (not insert) :]
    try:
        now = injected(text, SITE)[0]
    except (BadManifest, Denied):
        return
    before, after = (nodes.plain(next(nodes.documents(t)).root) for t in (text, now))
    if isinstance(before, dict):
        assert all(after[key] == value for key, value in before.items() if key not in ("metadata", "spec"))
