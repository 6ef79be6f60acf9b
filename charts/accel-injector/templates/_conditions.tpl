{{/*
The CEL of matchConditions: what is an object that asks. Each template below is called with the path of what it looks
at (`object.?spec.?template`), and its text is the CEL that is sent, in which `{{ . }}` is that path.

Every path uses optional selection (`.?`), since a path that is not there makes a condition fail, and a condition that
fails is a refusal under failurePolicy Fail. The type() guards are for `null`, which typed clients write where there is
nothing: `orValue` is for what is absent only. [x].exists(y, ...) is how CEL gives a value a name.
*/}}

{{/*
Something that has an accel.io/ annotation in its own metadata, or what was meant to be one: a label, accel.io.type,
accel/type. Those do nothing, which the webhook says.
*/}}
{{- define "accel-injector.asks.annotations" -}}
[{{ . }}.?metadata.?annotations.orValue({}), {{ . }}.?metadata.?labels.orValue({})].exists(m, type(m) == map &&
m.exists(k, k.startsWith('accel.io/') || k.startsWith('accel/') || (k.startsWith('accel.io') && !k.contains('/'))))
{{- end -}}

{{/* A pod template, or a Pod, that has one, or an accel.io/ limit in one of its containers. */}}
{{- define "accel-injector.asks.podTemplate" -}}
({{ include "accel-injector.asks.annotations" . }} ||
{{ include "accel-injector.limits" (dict "spec" (printf "%s.?spec" .) "where" "k.startsWith('accel.io/')") }})
{{- end -}}

{{/* A JobSet's list of replicated jobs. */}}
{{- define "accel-injector.asks.replicatedJobs" -}}
[{{ . }}.orValue([])].exists(jobs, type(jobs) == list &&
jobs.exists(j, {{ include "accel-injector.asks.annotations" "j.?template" }} ||
{{ include "accel-injector.asks.podTemplate" "j.?template.?spec.?template" }}))
{{- end -}}

{{/* A Volcano Job's list of tasks. */}}
{{- define "accel-injector.asks.tasks" -}}
[{{ . }}.orValue([])].exists(tasks, type(tasks) == list &&
tasks.exists(t, {{ include "accel-injector.asks.podTemplate" "t.?template" }}))
{{- end -}}

{{/* The spec of a Ray cluster. */}}
{{- define "accel-injector.asks.rayCluster" -}}
({{ include "accel-injector.asks.podTemplate" (printf "%s.?headGroupSpec.?template" .) }} ||
[{{ . }}.?workerGroupSpecs.orValue([])].exists(groups, type(groups) == list &&
groups.exists(g, {{ include "accel-injector.asks.podTemplate" "g.?template" }})))
{{- end -}}

{{/* Kubeflow's map of replica specs by role. */}}
{{- define "accel-injector.asks.replicaSpecs" -}}
[{{ . }}.orValue({})].exists(roles, type(roles) == map &&
roles.exists(r, {{ include "accel-injector.asks.podTemplate" "roles[r].?template" }}))
{{- end -}}

{{/* A workload. Call it with a dict: kind (of files/kinds.yaml), and object: `object` or `oldObject`. */}}
{{- define "accel-injector.asks" -}}
{{ include "accel-injector.asks.annotations" .object }}
{{- range .kind.asks }}
{{- range $what, $path := . }} ||
{{ include (printf "accel-injector.asks.%s" $what) (printf "%s.?%s" $.object $path) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A pod spec with a limit in one of its containers. Call it with a dict: spec, and where (CEL on the name k). */}}
{{- define "accel-injector.limits" -}}
[{{ .spec }}.?containers.orValue([]), {{ .spec }}.?initContainers.orValue([])].exists(l, type(l) == list &&
l.exists(c, [c.?resources.?limits.orValue({})].exists(m, type(m) == map && m.exists(k, {{ .where }}))))
{{- end -}}

{{/* A Pod or a Volcano Job with a limit of one of these resources. Call it with a JSON list of their names. */}}
{{- define "accel-injector.detects" -}}
{{- $listed := printf "k in %s" . -}}
{{ include "accel-injector.limits" (dict "spec" "object.?spec" "where" $listed) }} ||
[object.?spec.?tasks.orValue([])].exists(tasks, type(tasks) == list &&
tasks.exists(t, {{ include "accel-injector.limits" (dict "spec" "t.?template.?spec" "where" $listed) }}))
{{- end -}}

{{/* At UPDATE: an object that was applied again with another content. Call it with the kind. */}}
{{- define "accel-injector.changed" -}}
!has(object.metadata.deletionTimestamp) &&
(object.?{{ .reapply }} != oldObject.?{{ .reapply }} || object.metadata.?annotations != oldObject.metadata.?annotations)
{{- end -}}
