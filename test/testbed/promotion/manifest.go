package promotion

// releaseManifest is the file of an environment: its namespace and the release in it, whose version is marked.
const releaseManifest = `apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: podinfo
  namespace: %[1]s
spec:
  interval: 10m
  chart:
    spec:
      chart: podinfo
      version: "%[2]s" # {"$promotion": "%[3]s"}
      interval: 10m
      sourceRef:
        kind: HelmRepository
        name: charts
        namespace: flux-system
`

// sourcesManifest names the sources of a cluster's Flux.
const sourcesManifest = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: flux-system}
spec: {interval: 1h, url: %q}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: flux-system}
spec: {interval: 1s, timeout: 20s, url: %q, ref: {branch: main}}
`

// followManifest makes Flux apply the folder of an environment, and wait until the objects in it are ready.
const followManifest = `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: flux-system}
spec:
  interval: 10m
  timeout: 1m
  path: ./clusters/%[1]s
  prune: true
  wait: true
  sourceRef: {kind: GitRepository, name: fleet}
`

// pipelineManifest is the pipeline of the worked example, with shorter waits and a window that is always open.
const pipelineManifest = `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
  settle: %[4]s
  promotion:
    strategy:
      pull-request: {type: gitea, url: %[3]q, baseBranch: main, secretRef: {name: fleet-git}}
  environments:
  - name: dev
    targets: [{namespace: podinfo-dev}]
  - name: staging
    targets: [{namespace: podinfo-staging, clusterRef: {kind: GitopsCluster, name: leaf-eu}}]
    autoMerge: {method: squash}
    soak: %[5]s
    gates: [{name: smoke, http: {url: %[6]q}}]
  - name: prod
    targets:
    - {namespace: podinfo-prod, clusterRef: {kind: GitopsCluster, name: leaf-eu}}
    - {namespace: podinfo-prod, clusterRef: {kind: GitopsCluster, name: leaf-us}}
    windows: [{kind: Allow, schedule: "0 0 * * *", duration: 24h}]
`

// clusterManifest names a cluster for pipelines of the same namespace.
const clusterManifest = `
apiVersion: gitops.weave.works/v1alpha1
kind: GitopsCluster
metadata: {name: %[1]s, namespace: %[2]s}
spec: {secretRef: {name: %[1]s-kubeconfig}}
`
