{{/*
Objects of files, changed by the values: the templates of both charts (docs/decisions/0152-chart.md).
*/}}

{{/* vmop.labels are the chart's labels. */}}
{{- define "vmop.labels" -}}
app.kubernetes.io/part-of: vm-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* vmop.label adds them to an object. */}}
{{- define "vmop.label" -}}
{{- $labels := include "vmop.labels" .root | fromYaml -}}
{{- $_ := set .object.metadata "labels" (merge (default dict .object.metadata.labels) $labels) -}}
{{- end -}}

{{/* vmop.keep has an object stay when the release is uninstalled: without it, VMs or data would be lost. */}}
{{- define "vmop.keep" -}}
{{- $keep := dict "helm.sh/resource-policy" "keep" -}}
{{- $_ := set .object.metadata "annotations" (merge $keep (default dict .object.metadata.annotations)) -}}
{{- end -}}

{{/* vmop.write writes the objects of files, changed by the template of their kind. */}}
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
