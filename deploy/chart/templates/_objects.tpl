{{/*
The objects come from deploy/, which kustomize uses as well: base/ contains links to them (docs/decisions/0152-chart.md). The templates read each
object, apply the values and write it, so that both have the same source, and a value changes only the fields that it describes.
*/}}

{{/* vmop.image returns the reference of an image in the registry. */}}
{{- define "vmop.image" -}}
{{- printf "%s/%s:%s" .root.Values.registry .name (default .root.Chart.AppVersion .root.Values.tag) -}}
{{- end -}}

{{/* vmop.subjects sets the namespace of the accounts of a binding. */}}
{{- define "vmop.subjects" -}}
{{- range .object.subjects }}{{ $_ := set . "namespace" $.root.Release.Namespace }}{{ end -}}
{{- end -}}

{{- define "vmop.RoleBinding" }}{{ include "vmop.subjects" . }}{{ end -}}

{{/* The names of a cluster role and its binding contain the namespace, because each namespace has a manager. */}}
{{- define "vmop.ClusterRole" -}}
{{- $_ := set .object.metadata "name" (printf "%s-%s" .object.metadata.name .root.Release.Namespace) -}}
{{- end -}}

{{- define "vmop.ClusterRoleBinding" -}}
{{- include "vmop.ClusterRole" . -}}
{{- if not (hasPrefix "system:" .object.roleRef.name) -}}
{{- $_ := set .object.roleRef "name" .object.metadata.name -}}
{{- end -}}
{{- include "vmop.subjects" . -}}
{{- end -}}

{{- define "vmop.ConfigMap" -}}
{{- $values := .root.Values -}}
{{- $config := fromYaml (index .object.data "config.yaml") -}}
{{- if $values.devicePlugin -}}
{{- $kvm := dict "/Controller" (dict "/Reconciler" (dict "kvmResource" "vmop/kvm")) -}}
{{- $_ := mergeOverwrite (index $config "/Manager") $kvm -}}
{{- end -}}
{{- $own := mergeOverwrite (index $config "/Manager") (deepCopy $values.config) -}}
{{- $_ := set .object.data "config.yaml" (toYaml $config) -}}
{{- with $values.loggingProperties }}{{ $_ := set $.object.data "logging.properties" . }}{{ end -}}
{{- end -}}

{{/* vmop.program sets the manager's image and its pull options in the pod of an object. */}}
{{- define "vmop.program" -}}
{{- $values := .root.Values -}}
{{- $pod := .object.spec.template.spec -}}
{{- range $values.imagePullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" (append (default list $pod.imagePullSecrets) (dict "name" .)) -}}
{{- end -}}
{{- $container := index $pod.containers 0 -}}
{{- $image := include "vmop.image" (dict "root" .root "name" "manager") -}}
{{- $_ := set $container "image" (default $image $values.manager.image) -}}
{{- with $values.imagePullPolicy }}{{ $_ = set $container "imagePullPolicy" . }}{{ end -}}
{{- end -}}

{{- define "vmop.DaemonSet" }}{{ include "vmop.program" . }}{{ end -}}

{{- define "vmop.Deployment" -}}
{{- include "vmop.program" . -}}
{{- $values := .root.Values -}}
{{- $_ := set .object.spec "replicas" $values.manager.replicas -}}
{{- with $values.manager.podAnnotations }}{{ $_ = set $.object.spec.template.metadata "annotations" . }}{{ end -}}
{{- $pod := .object.spec.template.spec -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $values.manager $key }}{{ $_ = set $pod $key . }}{{ end -}}
{{- end -}}
{{- $container := index $pod.containers 0 -}}
{{- $image := include "vmop.image" (dict "root" .root "name" "runner") -}}
{{- $_ = set (index $container.env 0) "value" (default $image $values.runner.image) -}}
{{- $_ = set $container "env" (concat $container.env $values.manager.extraEnv) -}}
{{- $_ = set $container "resources" $values.manager.resources -}}
{{- $_ = set $container "volumeMounts" (concat $container.volumeMounts $values.manager.extraVolumeMounts) -}}
{{- range $pod.volumes -}}
{{- if eq .name "users" }}{{ $_ = set .secret "secretName" $values.usersSecret }}{{ end -}}
{{- if eq .name "tls" }}{{ $_ = set .secret "secretName" $values.tlsSecret }}{{ end -}}
{{- end -}}
{{- $_ = set $pod "volumes" (concat $pod.volumes $values.manager.extraVolumes) -}}
{{- end -}}

{{- define "vmop.Service" -}}
{{- $_ := set .object.spec "type" .root.Values.service.type -}}
{{- with .root.Values.service.annotations }}{{ $_ := set $.object.metadata "annotations" . }}{{ end -}}
{{- end -}}

{{- define "vmop.PersistentVolumeClaim" -}}
{{- include "vmop.keep" . -}}
{{- $_ := set .object.spec.resources.requests "storage" .root.Values.imageRepositorySize -}}
{{- with .root.Values.imageRepositoryStorageClass }}{{ $_ := set $.object.spec "storageClassName" . }}{{ end -}}
{{- end -}}
