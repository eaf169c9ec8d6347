{{/*
Templates of both charts that write objects from files with the values applied (docs/decisions/0152-chart.md).
*/}}

{{/* vmop.labels are the chart's labels. */}}
{{- define "vmop.labels" -}}
app.kubernetes.io/part-of: vm-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* vmop.label adds the chart's labels to an object. */}}
{{- define "vmop.label" -}}
{{- $labels := include "vmop.labels" .root | fromYaml -}}
{{- $_ := set .object.metadata "labels" (merge (default dict .object.metadata.labels) $labels) -}}
{{- end -}}

{{/* vmop.keep keeps an object when the release is uninstalled, because VMs or data would be lost without it. */}}
{{- define "vmop.keep" -}}
{{- $keep := dict "helm.sh/resource-policy" "keep" -}}
{{- $_ := set .object.metadata "annotations" (merge $keep (default dict .object.metadata.annotations)) -}}
{{- end -}}

{{/* vmop.write writes the objects in files after applying the template of their kind. */}}
{{- define "vmop.write" -}}
{{- range $file := .files -}}
{{- range splitList "\n---\n" (required (printf "the chart lacks %s" $file) ($.root.Files.Get $file)) -}}
{{- $object := fromYaml . -}}
{{- with $object.Error }}{{ fail (printf "%s: %s" $file .) }}{{ end -}}
{{- include "vmop.label" (dict "root" $.root "object" $object) -}}
{{- with get $.changes $object.kind }}{{ include . (dict "root" $.root "object" $object) }}{{ end -}}
{{- printf "---\n%s\n" (toYaml $object) -}}
{{- end -}}
{{- end -}}
{{- end -}}
