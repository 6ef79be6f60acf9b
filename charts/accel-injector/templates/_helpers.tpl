{{- define "accel-injector.fullname" -}}
{{- if contains "accel-injector" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-accel-injector" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "accel-injector.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "accel-injector.fullname" .) -}}
{{- end -}}

{{/* The Secret that contains the serving certificate's CA (self-managed) or the certificate itself. */}}
{{- define "accel-injector.secretName" -}}
{{- if eq .Values.tls.mode "existing-secret" -}}
{{- .Values.tls.existingSecret -}}
{{- else -}}
{{- printf "%s-%s" (include "accel-injector.fullname" .) (ternary "ca" "tls" (eq .Values.tls.mode "self-managed")) -}}
{{- end -}}
{{- end -}}

{{- define "accel-injector.selectorLabels" -}}
app.kubernetes.io/name: accel-injector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "accel-injector.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "accel-injector.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The metadata that every object has. Arguments: root, name (default: the full name), cluster (true if the kind has no
namespace), annotations (the object's own, in addition to the value `annotations`).
*/}}
{{- define "accel-injector.metadata" -}}
metadata:
  name: {{ .name | default (include "accel-injector.fullname" .root) }}
  {{- if not .cluster }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "accel-injector.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge dict (.annotations | default dict) .root.Values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "accel-injector.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The volume that is usually mounted automatically, for the one container that may have it. */}}
{{- define "accel-injector.apiAccess" -}}
- name: api-access
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          # The minimum; the kubelet renews it in time. It becomes invalid when the Pod is deleted.
          expirationSeconds: 600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
{{- end -}}

{{/*
The platform's labels: as the values say, or as the API server's version tells. Only GKE's and EKS's do, and neither where
there is no cluster (helm template) or where Argo CD passes major and minor alone.
*/}}
{{- define "accel-injector.platform" -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if ne .Values.config.platform "auto" -}}
{{- .Values.config.platform -}}
{{- else if contains "-gke." $version -}}
gke
{{- else if contains "-eks-" $version -}}
eks
{{- else -}}
{{- fail (printf "config.platform is auto, and the version %s does not say whose labels the nodes have. Run it again with --set config.platform=gfd where NVIDIA's GPU feature discovery labels the nodes (k3s, RKE2, OpenShift), --set config.platform=none where nobody does, or --set config.platform=gke, eks or aks on these clouds" $version) -}}
{{- end -}}
{{- end -}}

{{- define "accel-injector.config" -}}
{{- toYaml (merge (dict "platform" (include "accel-injector.platform" .)) (omit .Values.config "platform")) -}}
{{- end -}}

{{/* Resources whose presence in limits applies a profile, as JSON: `detect`, and those of the legacy format. */}}
{{- define "accel-injector.detected" -}}
{{- concat (.Values.config.detect | default list) (keys (.Values.config.accelerators | default dict)) | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/*
One webhook. Arguments: root, name, failurePolicy, operation, rules, and conditions (name: CEL, whose line breaks
become spaces).
*/}}
{{- define "accel-injector.entry" -}}
{{- $values := .root.Values -}}
- name: {{ .name }}
  clientConfig:
    service:
      name: {{ include "accel-injector.fullname" .root }}
      namespace: {{ .root.Release.Namespace }}
      path: /mutate
      port: 443
    {{- if eq $values.tls.mode "existing-secret" }}
    caBundle: {{ contains "-----BEGIN" $values.tls.caBundle | ternary ($values.tls.caBundle | b64enc) $values.tls.caBundle }}
    {{- end }}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: {{ .failurePolicy }}
  timeoutSeconds: {{ $values.webhook.timeoutSeconds }}
  # Another webhook may add a container after the first call.
  reinvocationPolicy: IfNeeded
  matchPolicy: Equivalent
  namespaceSelector:
    matchLabels:
      accel.io/injection: enabled
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{ concat (list "kube-system" "kube-node-lease" .root.Release.Namespace) $values.webhook.excludedNamespaces | uniq | toJson }}
  # Explicit, so that we own the field and an upgrade removes a selector that somebody added.
  objectSelector: {}
  rules:
    {{- range .rules }}
    - apiGroups: {{ toJson .apiGroups }}
      apiVersions: {{ toJson .apiVersions }}
      resources: {{ toJson .resources }}
      operations: [{{ $.operation }}]
      scope: Namespaced
    {{- end }}
  matchConditions:
    {{- range $name, $cel := .conditions }}
    - name: {{ $name }}
      expression: {{ splitList "\n" $cel | join " " | quote }}
    {{- end }}
{{- end -}}

{{/* "true" if a monitoring object is to be created. Arguments: root, enabled (auto, true or false), kind. */}}
{{- define "accel-injector.monitored" -}}
{{- if kindIs "bool" .enabled -}}
{{- .enabled | ternary "true" "" -}}
{{- else -}}
{{- .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) | ternary "true" "" -}}
{{- end -}}
{{- end -}}
