{{/*
The pod and the configuration come from examples/runner-pod, with the values applied (docs/decisions/0152-chart.md).
*/}}

{{/* vmop.vm returns the value vm in the format of the runner's configuration. */}}
{{- define "vmop.vm" -}}
{{- $vm := deepCopy .Values.vm -}}
{{- range $old, $new := dict "machineUuid" "uuid" "maximumMemory" "maximumRam" "currentMemory" "currentRam" -}}
{{- if hasKey $vm $old }}{{ $_ := set $vm $new (get $vm $old) }}{{ end -}}
{{- end -}}
{{- $spice := dict -}}
{{- with $vm.spicePort }}{{ $_ := set $spice "port" . }}{{ end -}}
{{- with $vm.streamingVideo }}{{ $_ := set $spice "streamingVideo" . }}{{ end -}}
{{- if $spice }}{{ $_ := set $vm "display" (mergeOverwrite (dict "spice" $spice) (default dict $vm.display)) }}{{ end -}}
{{- with $vm.networks -}}
{{- if not $.Values.privileged }}{{ fail "vm.networks: a bridge of the node needs privileged: true" }}{{ end -}}
{{- $cards := list -}}
{{- range . -}}
{{- $card := dict "type" "tap" -}}
{{- with .bridge -}}
{{- with .name }}{{ $_ := set $card "bridge" . }}{{ end -}}
{{- with .mac }}{{ $_ := set $card "mac" . }}{{ end -}}
{{- end -}}
{{- $cards = append $cards $card -}}
{{- end -}}
{{- $_ := set $vm "network" $cards -}}
{{- end -}}
{{- with $vm.disks -}}
{{- $drives := list -}}
{{- range $i, $_ := . -}}
{{- $drives = append $drives (dict "type" "raw" "device" (printf "/dev/disk-%d" $i)) -}}
{{- end -}}
{{- $_ := set $vm "drives" (concat $drives (default list $vm.drives)) -}}
{{- end -}}
{{- omit $vm "machineUuid" "maximumMemory" "currentMemory" "spicePort" "streamingVideo" "spiceTicket" "networks" "disks" "host" | toYaml -}}
{{- end -}}

{{/* vmop.config returns the runner's configuration. */}}
{{- define "vmop.config" -}}
{{- $config := fromYaml (required "the chart lacks base/config.yaml" (.Files.Get "base/config.yaml")) -}}
{{- $runner := index $config "/Runner" -}}
{{- $_ := set $runner "runtimeDir" (printf "/run/vmrunner/%s" .Release.Name) -}}
{{- $_ = set $runner.vm "name" .Release.Name -}}
{{- if .Values.privileged }}{{ $_ = unset $runner.vm "accelerator" }}{{ end -}}
{{- $_ = mergeOverwrite $runner.vm (include "vmop.vm" . | fromYaml) -}}
{{- with .Values.cloudInit }}{{ $_ = set $runner "cloudInit" . }}{{ end -}}
{{- $_ = mergeOverwrite $runner (deepCopy .Values.config) -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "vmop.displaySecret" -}}
{{- if .Values.vm.spiceTicket }}{{ .Release.Name }}-display-secret{{ else }}{{ .Values.displaySecret }}{{ end -}}
{{- end -}}

{{- define "vmop.Pod" -}}
{{- $values := .root.Values -}}
{{- $name := .root.Release.Name -}}
{{- $_ := set .object.metadata "name" $name -}}
{{- $_ = set .object.metadata.labels "app.kubernetes.io/instance" $name -}}
{{- $pod := .object.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- $version := default .root.Chart.AppVersion $values.image.version -}}
{{- $joint := ternary "@" ":" (hasPrefix "sha256:" $version) -}}
{{- $_ = set $container "image" (printf "%s/%s%s%s" $values.image.repository $values.image.path $joint $version) -}}
{{- with $values.image.pullPolicy }}{{ $_ = set $container "imagePullPolicy" . }}{{ end -}}
{{- range $values.imagePullSecrets -}}
{{- $_ = set $pod "imagePullSecrets" (append (default list $pod.imagePullSecrets) (dict "name" .)) -}}
{{- end -}}
{{- $_ = mergeOverwrite $container.resources (deepCopy $values.resources) -}}
{{- range $key := list "nodeSelector" "tolerations" }}{{ with index $values $key }}{{ $_ = set $pod $key . }}{{ end }}{{ end -}}
{{- $config := include "vmop.config" .root | fromYaml -}}
{{- $grace := add (index $config "/Runner" "vm" "powerdownTimeout") 35 -}}
{{- $_ = set $pod "terminationGracePeriodSeconds" $grace -}}
{{- range $container.env }}{{ if eq .name "POD_GRACE_PERIOD" }}{{ $_ = set . "value" (toString $grace) }}{{ end }}{{ end -}}
{{- if $values.privileged -}}
{{- $_ = set $pod "hostNetwork" true -}}
{{- $_ = set $pod "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- $_ = set $pod "securityContext" (dict "runAsUser" 0 "runAsGroup" 0) -}}
{{- $_ = set $container "securityContext" (dict "privileged" true "readOnlyRootFilesystem" true) -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- if eq .name "data" }}{{ $_ = set .persistentVolumeClaim "claimName" (printf "%s-data" $name) }}{{ end -}}
{{- if eq .name "config" -}}
{{- $_ = set .configMap "name" $name -}}
{{- with include "vmop.displaySecret" $.root -}}
{{- $files := list (dict "configMap" (dict "name" $name)) (dict "secret" (dict "name" .)) -}}
{{- $_ = set (index $pod.volumes 0) "projected" (dict "sources" $files) -}}
{{- $_ = unset (index $pod.volumes 0) "configMap" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $i, $_ := $values.vm.disks -}}
{{- $disk := printf "disk-%d" $i -}}
{{- $device := dict "name" $disk "devicePath" (printf "/dev/%s" $disk) -}}
{{- $_ := set $container "volumeDevices" (append (default list $container.volumeDevices) $device) -}}
{{- $claim := dict "claimName" (printf "%s-pvc-%d" $name $i) -}}
{{- $_ = set $pod "volumes" (append $pod.volumes (dict "name" $disk "persistentVolumeClaim" $claim)) -}}
{{- end -}}
{{- $_ = set $pod "volumes" (concat $pod.volumes $values.extraVolumes) -}}
{{- $_ = set $container "volumeMounts" (concat $container.volumeMounts $values.extraVolumeMounts) -}}
{{- end -}}

{{/* vmop.data configures the claim of the example's pod. */}}
{{- define "vmop.data" -}}
{{- $_ := set .object.metadata "name" (printf "%s-data" .root.Release.Name) -}}
{{- include "vmop.keep" . -}}
{{- $_ = set .object.spec.resources.requests "storage" .root.Values.data.size -}}
{{- with .root.Values.data.storageClassName }}{{ $_ = set $.object.spec "storageClassName" . }}{{ end -}}
{{- end -}}
