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
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "parley.image" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}
{{- else if .tag -}}{{ .repository }}:{{ .tag }}
{{- else -}}{{ .repository }}
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
