{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "quorate.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The names of pods, services and jobs begin with it, and may have 63 characters. */}}
{{- define "quorate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "quorate.name" .) .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "quorate.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "quorate.selector" -}}
app.kubernetes.io/name: {{ include "quorate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quorate.labels" -}}
{{ include "quorate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "quorate.image" -}}
{{ with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "quorate.secret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-secrets" (include "quorate.fullname" .)) }}
{{- end }}

{{- define "quorate.tlsSecret" -}}
{{- if and (not .Values.tls.client.existingSecret) (not .Values.tls.client.certManager.create) -}}
{{ fail "tls.client.enabled needs tls.client.existingSecret, or tls.client.certManager.create" }}
{{- end -}}
{{ .Values.tls.client.existingSecret | default (printf "%s-tls" (include "quorate.fullname" .)) }}
{{- end }}

{{/* What the scripts in pods and jobs need to know (deploy/kubernetes/scripts/pod.sh). */}}
{{- define "quorate.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_HOSTS
  value: {{ include "quorate.fullname" . }}-%d.{{ include "quorate.fullname" . }}-headless.$(POD_NAMESPACE).svc.{{ .Values.clusterDomain }}
- name: POD_INITIAL_MEMBERS
  value: {{ .Values.initialMembers | quote }}
{{- if .Values.tls.client.enabled }}
- name: POD_TLS
  value: /tls
- name: POD_TLS_CLIENT_AUTH
  value: {{ .Values.tls.client.auth }}
{{- end }}
{{- end }}

{{- define "quorate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "quorate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "quorate.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: secrets, mountPath: /secrets, readOnly: true}
{{- if .Values.tls.client.enabled }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "quorate.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
- name: secrets
  secret:
    secretName: {{ include "quorate.secret" . }}
    defaultMode: 0440
{{- if .Values.tls.client.enabled }}
- name: tls
  secret:
    secretName: {{ include "quorate.tlsSecret" . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* A job that runs members.sh. Takes a list: the root, and the arguments of the script. */}}
{{- define "quorate.membersJob" -}}
{{- $root := index . 0 -}}
backoffLimit: 10
template:
  metadata:
    labels:
      {{- include "quorate.selector" $root | nindent 6 }}
      app.kubernetes.io/component: members
  spec:
    restartPolicy: OnFailure
    automountServiceAccountToken: false
    securityContext:
      {{- include "quorate.podSecurity" $root | nindent 6 }}
    {{- with $root.Values.image.pullSecrets }}
    imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
    {{- end }}
    containers:
      - name: members
        image: {{ include "quorate.image" $root }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        command: [/usr/lib/quorate/kubernetes/members.sh, {{ index . 1 }}]
        env:
          {{- include "quorate.env" $root | nindent 10 }}
        securityContext:
          {{- include "quorate.containerSecurity" $root | nindent 10 }}
        volumeMounts:
          {{- include "quorate.mounts" $root | nindent 10 }}
    volumes:
      {{- include "quorate.volumes" $root | nindent 6 }}
{{- end }}
