{{/* The name of every object: that of the release, with "parley" unless it says so. */}}
{{- define "parley.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains "parley" $name) -}}{{- $name = printf "%s-parley" $name -}}{{- end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods. It never changes: a Deployment cannot take another one. */}}
{{- define "parley.selector" -}}
app: {{ include "parley.name" . }}
{{- end -}}

{{- define "parley.labels" -}}
{{ include "parley.selector" . }}
app.kubernetes.io/name: parley
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "parley.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}{{ $image.repository }}@{{ $image.digest }}
{{- else -}}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The account of the pods, "" for the default of the namespace. */}}
{{- define "parley.account" -}}
{{- if .Values.serviceAccount.name -}}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}{{ include "parley.name" . }}
{{- end -}}
{{- end -}}

{{/* The content of the Secrets that become variables; "" without a cluster to ask, as in helm template. */}}
{{- define "parley.secrets" -}}
{{- $names := list .Values.bucket.existingSecret .Values.token.existingSecret -}}
{{- range .Values.extraEnvFrom }}{{ with .secretRef }}{{ $names = append $names .name }}{{ end }}{{ end -}}
{{- range .Values.extraEnv }}{{ with .valueFrom }}{{ with .secretKeyRef }}{{ $names = append $names .name }}{{ end }}{{ end }}{{ end -}}
{{- range $names }}{{ with lookup "v1" "Secret" $.Release.Namespace . }}{{ toJson .data }}{{ end }}{{ end -}}
{{- end -}}

{{/* The time of a pod to end: it has to be above the drain delay and what a node takes after it. */}}
{{- define "parley.grace" -}}
{{- $values := (index . 0).Values -}}
{{- $delay := (index . 1).drain | default dict | dig "delay" "5s" | toString -}}
{{- $seconds := 0 -}}
{{- if regexMatch "^[0-9]+s$" $delay }}{{ $seconds = trimSuffix "s" $delay | int }}
{{- else if regexMatch "^[0-9]+m$" $delay }}{{ $seconds = trimSuffix "m" $delay | int | mul 60 }}
{{- end -}}
{{- $least := add $seconds 25 -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, want %d or more: drain.delay of config, and 25 s for turns under way and the hand-over" (int $values.terminationGracePeriodSeconds) $least) -}}
{{- end -}}
{{- $values.terminationGracePeriodSeconds -}}
{{- end -}}

{{/* The size of /tmp: a quarter above what bodies may take there. */}}
{{- define "parley.tmp" -}}
{{- $values := (index . 0).Values -}}
{{- $spool := (index . 1).limits | default dict | dig "spoolBytes" 1073741824 | int64 -}}
{{- if $values.tmpSize -}}{{ $values.tmpSize }}
{{- else -}}{{ div (mul $spool 5) 4194304 }}Mi
{{- end -}}
{{- end -}}

{{/* The configuration, read: it has to say what every node of a cluster needs. */}}
{{- define "parley.config" -}}
{{- $conf := fromYaml .Values.config -}}
{{- with $conf.Error }}{{ fail (printf "config is not the text of a parley.yaml: %s" .) }}{{ end -}}
{{- $cluster := $conf.cluster | default dict -}}
{{- $admin := $conf.admin | default dict -}}
{{- range $key, $address := dict "listen" $conf.listen "cluster.listen" $cluster.listen "admin.listen" $admin.listen -}}
{{- if not (regexMatch ":[0-9]+$" (toString $address)) }}{{ fail (printf "config has to say %s as host:port, for example 0.0.0.0:3000" $key) }}{{ end -}}
{{- end -}}
{{- toYaml $conf -}}
{{- end -}}

{{- define "parley.port" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end -}}
