{{/*
The CEL of matchConditions: which objects are sent to the webhook. Each template below is called with the path of a
field (`object.?spec.?template`) and renders a CEL expression about it, in which `{{ . }}` is that path.

Every path uses optional selection (`.?`): a missing field would make the condition an error, and with failurePolicy
Fail an error refuses the object. The type() guards are for `null`, which typed clients write for an empty field, and
for which `orValue` does nothing. [x].exists(y, ...) is how CEL gives a value a name.
*/}}

{{/*
Whether the metadata has an accel.io/ annotation, or a key that was meant to be one: a label, accel.io.type, accel/type.
Such keys have no effect, and the webhook warns about them.
*/}}
{{- define "accel-injector.asks.annotations" -}}
[{{ . }}.?metadata.?annotations.orValue({}), {{ . }}.?metadata.?labels.orValue({})].exists(m, type(m) == map &&
m.exists(k, k.startsWith('accel.io/') || k.startsWith('accel/') || (k.startsWith('accel.io') && !k.contains('/'))))
{{- end -}}

{{/* Whether a pod template, or a Pod, has such a key, or an accel.io/ limit in one of its containers. */}}
{{- define "accel-injector.asks.podTemplate" -}}
({{ include "accel-injector.asks.annotations" . }} ||
{{ include "accel-injector.limits" (dict "spec" (printf "%s.?spec" .) "where" "k.startsWith('accel.io/')") }})
{{- end -}}

{{/* The same for a JobSet's list of replicated jobs. */}}
{{- define "accel-injector.asks.replicatedJobs" -}}
[{{ . }}.orValue([])].exists(jobs, type(jobs) == list &&
jobs.exists(j, {{ include "accel-injector.asks.annotations" "j.?template" }} ||
{{ include "accel-injector.asks.podTemplate" "j.?template.?spec.?template" }}))
{{- end -}}

{{/* The same for a Volcano Job's list of tasks. */}}
{{- define "accel-injector.asks.tasks" -}}
[{{ . }}.orValue([])].exists(tasks, type(tasks) == list &&
tasks.exists(t, {{ include "accel-injector.asks.podTemplate" "t.?template" }}))
{{- end -}}

{{/* The same for the spec of a RayCluster. */}}
{{- define "accel-injector.asks.rayCluster" -}}
({{ include "accel-injector.asks.podTemplate" (printf "%s.?headGroupSpec.?template" .) }} ||
[{{ . }}.?workerGroupSpecs.orValue([])].exists(groups, type(groups) == list &&
groups.exists(g, {{ include "accel-injector.asks.podTemplate" "g.?template" }})))
{{- end -}}

{{/* The same for Kubeflow's map of replica specs by role. */}}
{{- define "accel-injector.asks.replicaSpecs" -}}
[{{ . }}.orValue({})].exists(roles, type(roles) == map &&
roles.exists(r, {{ include "accel-injector.asks.podTemplate" "roles[r].?template" }}))
{{- end -}}

{{/* Whether a workload has such a key or limit. Arguments: kind (from files/kinds.yaml); object, `object` or `oldObject`. */}}
{{- define "accel-injector.asks" -}}
{{ include "accel-injector.asks.annotations" .object }}
{{- range .kind.asks }}
{{- range $what, $path := . }} ||
{{ include (printf "accel-injector.asks.%s" $what) (printf "%s.?%s" $.object $path) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether a pod spec has a limit in one of its containers. Arguments: spec, its path; where, CEL about the resource name k. */}}
{{- define "accel-injector.limits" -}}
[{{ .spec }}.?containers.orValue([]), {{ .spec }}.?initContainers.orValue([])].exists(l, type(l) == list &&
l.exists(c, [c.?resources.?limits.orValue({})].exists(m, type(m) == map && m.exists(k, {{ .where }}))))
{{- end -}}

{{/* Whether a Pod or a Volcano Job has a limit of one of these resources. Argument: a JSON list of their names. */}}
{{- define "accel-injector.detects" -}}
{{- $listed := printf "k in %s" . -}}
{{ include "accel-injector.limits" (dict "spec" "object.?spec" "where" $listed) }} ||
[object.?spec.?tasks.orValue([])].exists(tasks, type(tasks) == list &&
tasks.exists(t, {{ include "accel-injector.limits" (dict "spec" "t.?template.?spec" "where" $listed) }}))
{{- end -}}

{{/* Whether an UPDATE changes what the user wrote. Argument: the kind. */}}
{{- define "accel-injector.changed" -}}
!has(object.metadata.deletionTimestamp) &&
(object.?{{ .reapply }} != oldObject.?{{ .reapply }} || object.metadata.?annotations != oldObject.metadata.?annotations)
{{- end -}}

{{/* The same for a Pod: many write annotations of their own on it, so only ours count. */}}
{{- define "accel-injector.changed.pod" -}}
!has(object.metadata.deletionTimestamp) && (object.?spec != oldObject.?spec ||
object.metadata.?annotations.orValue({}).exists(k, k.startsWith('accel.io/') &&
object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]))
{{- end -}}
