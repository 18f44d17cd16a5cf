{{- define "kvchaos.pod" -}}
metadata:
  labels:
    {{- include "kvchaos.labels" . | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: lmcache
    {{- if not .Values.config.existing.name }}
    checksum/static-config: {{ include "kvchaos.staticConfig" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 30
  securityContext:
    fsGroup: {{ .Values.sidecar.runAsGroup | int64 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.cacheServer.hostIPC }}
  hostIPC: true
  {{- end }}
  initContainers:
    # A native sidecar: starts before the cache server, ends after it.
    - name: sidecar
      image: {{ .Values.sidecar.image }}
      imagePullPolicy: {{ .Values.sidecar.pullPolicy }}
      restartPolicy: Always
      args: [--config, /etc/kvchaos/kvchaos.yaml]
      env:
        - name: KVCHAOS_TARGET
          value: {{ if .Values.control.expose }}127.0.0.1:{{ .Values.control.port }}{{ else }}unix:/run/kvchaos-control/control.sock{{ end }}
      ports:
        - {name: metrics, containerPort: {{ .Values.sidecar.httpPort }}}
        {{- if .Values.control.expose }}
        - {name: control, containerPort: {{ .Values.control.port }}}
        {{- end }}
      startupProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 2
        failureThreshold: 30
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        failureThreshold: 3
      securityContext:
        runAsUser: {{ .Values.sidecar.runAsUser | int64 }}
        runAsGroup: {{ .Values.sidecar.runAsGroup | int64 }}
        {{- include "kvchaos.hardened" . | nindent 8 }}
      resources:
        {{- toYaml .Values.sidecar.resources | nindent 8 }}
      volumeMounts:
        - {name: cache-socket, mountPath: /run/kvchaos}
        - {name: control-socket, mountPath: /run/kvchaos-control}
        # The directory, not a subPath: a subPath is never updated.
        - {name: config, mountPath: /etc/kvchaos, readOnly: true}
        - {name: sidecar-tmp, mountPath: /tmp}
        {{- if .Values.control.expose }}
        - {name: tls, mountPath: /etc/kvchaos-tls, readOnly: true}
        - {name: token, mountPath: /etc/kvchaos-token, readOnly: true}
        {{- end }}
        {{- with .Values.sidecar.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  containers:
    - name: lmcache
      image: {{ .Values.cacheServer.image }}
      imagePullPolicy: {{ .Values.cacheServer.pullPolicy }}
      args:
        - server
        - --host=0.0.0.0
        - --port={{ .Values.cacheServer.port }}
        - --http-host=0.0.0.0
        - --http-port={{ .Values.cacheServer.httpPort }}
        - --l1-size-gb={{ .Values.cacheServer.l1SizeGb }}
        - --eviction-policy=LRU
        - --l2-adapter
        - '{"type": "plugin", "module_path": "kvchaos.lmcache", "class_name": "KVChaosL2Adapter", "adapter_params": {"target": "unix:/run/kvchaos/cache.sock"}}'
        {{- with .Values.cacheServer.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: cache, containerPort: {{ .Values.cacheServer.port }}}
        - {name: http, containerPort: {{ .Values.cacheServer.httpPort }}}
      startupProbe:
        httpGet: {path: /healthcheck, port: http}
        periodSeconds: 5
        failureThreshold: 36
      readinessProbe:
        httpGet: {path: /healthcheck, port: http}
        periodSeconds: 5
      livenessProbe:
        httpGet: {path: /healthcheck, port: http}
        periodSeconds: 10
        failureThreshold: 3
      securityContext:
        runAsUser: {{ .Values.cacheServer.runAsUser | int64 }}
        runAsGroup: {{ .Values.sidecar.runAsGroup | int64 }}
        {{- include "kvchaos.hardened" . | nindent 8 }}
      resources:
        {{- toYaml .Values.cacheServer.resources | nindent 8 }}
      volumeMounts:
        - {name: cache-socket, mountPath: /run/kvchaos, readOnly: true}
        - {name: lmcache-tmp, mountPath: /tmp}
        {{- if not .Values.cacheServer.hostIPC }}
        - {name: shm, mountPath: /dev/shm}
        {{- end }}
    {{- if .Values.blend.enabled }}
    - name: blend
      image: {{ .Values.blend.image }}
      imagePullPolicy: {{ .Values.blend.pullPolicy }}
      args:
        - serve
        - --http=0.0.0.0:{{ .Values.blend.metricsPort }}
        - --listen=unix:/tmp/blend.sock
        - --target=unix:/run/kvchaos/cache.sock
        - --model={{ .Values.blend.model }}
        - --model-name={{ .Values.blend.modelName }}
        {{- if .Values.blend.segmentedPrefix }}
        - --enable-segmented-prefix
        {{- end }}
        {{- with .Values.blend.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: blend-metrics, containerPort: {{ .Values.blend.metricsPort }}}
      startupProbe:
        httpGet: {path: /metrics, port: blend-metrics}
        periodSeconds: 5
        failureThreshold: 60
      readinessProbe:
        httpGet: {path: /metrics, port: blend-metrics}
        periodSeconds: 5
      livenessProbe:
        httpGet: {path: /metrics, port: blend-metrics}
        periodSeconds: 10
        failureThreshold: 3
      securityContext:
        runAsUser: {{ .Values.blend.runAsUser | int64 }}
        runAsGroup: {{ .Values.sidecar.runAsGroup | int64 }}
        {{- include "kvchaos.hardened" . | nindent 8 }}
      resources:
        {{- toYaml .Values.blend.resources | nindent 8 }}
      volumeMounts:
        - {name: cache-socket, mountPath: /run/kvchaos, readOnly: true}
        - {name: blend-tmp, mountPath: /tmp}
        {{- with .Values.blend.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- end }}
  volumes:
    - name: cache-socket
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: control-socket
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: config
      {{- if and .Values.config.existing.name (eq .Values.config.existing.kind "Secret") }}
      secret: {secretName: {{ .Values.config.existing.name }}}
      {{- else }}
      configMap: {name: {{ .Values.config.existing.name | default (include "kvchaos.name" .) }}}
      {{- end }}
    - name: sidecar-tmp
      emptyDir: {}
    - name: lmcache-tmp
      emptyDir: {}
    {{- if not .Values.cacheServer.hostIPC }}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ printf "%.0fMi" (mulf .Values.cacheServer.l1SizeGb 1152) }}}
    {{- end }}
    {{- if .Values.control.expose }}
    - name: tls
      secret: {secretName: {{ required "control.tlsSecret is needed when control.expose is true" .Values.control.tlsSecret }}}
    - name: token
      secret: {secretName: {{ required "control.tokenSecret is needed when control.expose is true" .Values.control.tokenSecret }}}
    {{- end }}
    {{- if .Values.blend.enabled }}
    - name: blend-tmp
      emptyDir: {}
    {{- with .Values.blend.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with .Values.sidecar.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
