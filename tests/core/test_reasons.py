"""The output of `accel explain -f`, compared with the result of injection in every golden case."""

import json
import re

import pytest

from tests.support.case import NAMESPACE, Case, all_cases
from webhook.command import reasons
from webhook.core.admission import view
from webhook.core.inject import inject
from webhook.core.kinds.kind import Context
from webhook.core.messages import Denied
from webhook.manifest import inject as manifest


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_explain_tells_every_edit_and_no_other(case: Case) -> None:
    """What explain says an object gets is what injection writes, rule by rule; and each line has a reason."""
    text = (case.folder / "input.yaml").read_text()
    (_, document), *_ = manifest.documents(text, "input.yaml")
    for subject in manifest.subjects(document):
        if subject.workload is None:
            continue
        try:
            obj = view(subject.workload, json.dumps(subject.value).encode())
            setting = Context(manifest.namespace_of(subject.value) or NAMESPACE, case.site, offline=True)
            edits = inject(subject.workload, obj, setting).edits
        except Denied:
            continue
        found = reasons.explain(subject.name, subject.workload, subject.value, obj, setting)
        lines = [*found.around, *(line for part in found.parts for line in part.gets)]
        ours = [nameless(line.what) for line in lines]
        written = [nameless(line.what) for line in reasons.lines_of(obj, subject.value, edits, "-")]

        assert all(line.what and line.why for line in lines)
        assert all(any(line.endswith(other) for other in ours) for line in written)
        assert all(any(other.endswith(line) for other in written) for line in ours)


def nameless(line: str) -> str:
    """A line of explain without what depends on its context: "removed: ", and the names of items."""
    return re.sub(r"\[[^]]*\]", "[]", line.removeprefix("removed: "))
