package provisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Labels and annotations of the pods of workers. The build's nonce is not on the pod: with it, a password could be guessed by the digest.
const (
	labelManagedBy     = "app.kubernetes.io/managed-by"
	labelComponent     = "app.kubernetes.io/component"
	labelInstance      = "waybill.dev/instance"
	labelBuild         = "waybill.dev/build"
	annotationProject  = "waybill.dev/project"
	annotationDigest   = "waybill.dev/request-digest"
	annotationKey      = "waybill.dev/key"
	annotationSnapshot = "waybill.dev/snapshot"   // key of the snapshot or bundle that is sent to the worker; absent: none is
	annotationCreated  = "waybill.dev/created-at" // by the provisioner's clock, as all times of a list

	managedBy  = "waybill"
	component  = "build-worker"
	namePrefix = "waybill-worker-"
)

// Names in the pod of a worker.
const (
	containerClone  = "clone"
	WorkerContainer = "worker" // runs the build
	workerPort      = 5010

	volumeWork        = "work"
	volumeLaunch      = "launch"
	volumeCredentials = "credentials"
	volumeAccount     = "account"

	workFolder        = "/mnt/work"
	launchFolder      = "/mnt/launch"
	credentialsFolder = "/mnt/credentials" //nolint:gosec // a path
	cloneFolder       = workFolder + "/clone"
	accountFolder     = "/var/run/secrets/kubernetes.io/serviceaccount"

	launchKey      = "launch.json"
	credentialsKey = "credentials"
)

// workerUser is the user and group of a worker's containers.
const workerUser int64 = 65532

// Bounds of a pod's inputs.
const (
	longestInstance = 40
	mostSecret      = 1<<20 - 16<<10
)

// instanceName matches a part of a pod's name and a label.
var instanceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// object is a JSON object.
type object = map[string]any

// workerManifest describes the pod of a worker and its Secrets.
type workerManifest struct {
	Launch
	config      KubernetesConfig
	name        string
	given       []byte // launch.json
	credentials []byte // nil: none
}

// manifest checks a launch and describes its objects.
func (k *Kubernetes) manifest(ctx context.Context, launch Launch) (workerManifest, error) {
	m := workerManifest{Launch: launch, config: k.KubernetesConfig, name: fmt.Sprintf("%s%s-%d", namePrefix, launch.Instance, launch.BuildID)}
	if !instanceName.MatchString(launch.Instance) || len(launch.Instance) > longestInstance {
		return m, fault.New(fault.Invalid,
			"instance: want at most %d lower-case letters, digits and inner hyphens, found %q", longestInstance, launch.Instance)
	}
	given := provisionerv1.Launch{CreateWorker: launch.CreateWorker, Token: launch.Token, Trace: launch.Trace}
	if r := launch.Repository; r != nil {
		if err := checkClone(r); err != nil {
			return m, err
		}
		given.Clone = cloneFolder
		var err error
		if m.credentials, err = readCredentials(k.Credentials, r.Credential); err != nil {
			return m, err
		}
	}
	if sent := launch.Sent(); sent != "" {
		push, err := k.Snapshots.Describe(ctx, sent)
		if err != nil {
			return m, err
		}
		given.Push = &push
	}
	var err error
	if m.given, err = json.Marshal(given); err != nil {
		return m, err
	}
	if len(m.given) > mostSecret {
		return m, fault.New(fault.Invalid, "inputs and variables come to %d bytes, a Secret of Kubernetes holds %d", len(m.given), mostSecret)
	}
	return m, nil
}

func (m workerManifest) labels() object {
	return object{labelManagedBy: managedBy, labelComponent: component, labelInstance: m.Instance,
		labelBuild: strconv.FormatInt(m.BuildID, 10)}
}

func (m workerManifest) pod() object {
	spec := object{
		"restartPolicy": "Never", "nodeSelector": object{"kubernetes.io/os": "linux"}, "enableServiceLinks": false,
		"serviceAccountName": m.config.ServiceAccount, "automountServiceAccountToken": false, // volumeAccount is for the worker's container alone
		"terminationGracePeriodSeconds": int64(m.config.Grace / time.Second),
		"securityContext": object{"runAsNonRoot": true, "runAsUser": workerUser, "runAsGroup": workerUser, "fsGroup": workerUser,
			"seccompProfile": object{"type": "RuntimeDefault"}},
		"containers": []any{m.worker()}, "volumes": m.volumes(),
	}
	if m.Repository != nil {
		spec["initContainers"] = []any{m.clone()}
	}
	notes := object{annotationProject: m.Project, annotationDigest: m.Digest, annotationKey: strconv.Itoa(m.Key),
		annotationCreated: time.Now().UTC().Format(time.RFC3339),
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "kubectl.kubernetes.io/default-container": WorkerContainer}
	if sent := m.Sent(); sent != "" {
		notes[annotationSnapshot] = sent
	}
	return object{"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": object{
		"name": m.name, "namespace": m.config.Cluster.Namespace, "labels": m.labels(), "annotations": notes,
	}}
}

// container describes the common part of both containers.
func (m workerManifest) container(name string, command []any, env []any, mounts ...any) object {
	c := object{
		"name": name, "image": m.config.Image, "command": command, "workingDir": workFolder,
		"env":          append([]any{variable("HOME", workFolder), variable("TMPDIR", workFolder)}, env...),
		"volumeMounts": append([]any{object{"name": volumeWork, "mountPath": workFolder}}, mounts...),
		"resources":    object{"requests": object{"cpu": "100m", "memory": "128Mi"}},
		"securityContext": object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": object{"drop": []any{"ALL"}}},
	}
	if m.config.PullPolicy != "" {
		c["imagePullPolicy"] = m.config.PullPolicy
	}
	return c
}

// clone describes the container that gets the commit. It alone sees the credentials, and has no account of the cluster.
func (m workerManifest) clone() object {
	r := m.Repository
	env := []any{variable(shimv1.EnvCloneURL, r.URL), variable(shimv1.EnvCloneCommit, r.Commit), variable(shimv1.EnvCloneBranch, r.Branch),
		variable(shimv1.EnvCloneFolder, cloneFolder)}
	if m.credentials == nil {
		return m.container(containerClone, []any{"waybill", "shim", "clone"}, env)
	}
	env = append(env, variable(shimv1.EnvCloneCredentials, credentialsFolder+"/"+credentialsKey))
	return m.container(containerClone, []any{"waybill", "shim", "clone"}, env, readOnly(volumeCredentials, credentialsFolder))
}

// worker describes the container that runs the build. It has the pod's grace but for a minute, so that it ends on its
// own.
func (m workerManifest) worker() object {
	const reserve = time.Minute
	stay := max(m.config.Grace-reserve, m.config.Grace/2)
	command := []any{"waybill", "run", "--launch", launchFolder + "/" + launchKey, "--results-dir",
		workFolder + "/results", "--listen", ":" + strconv.Itoa(workerPort),
		"--linger", m.config.Linger.String(), "--termination-grace", stay.String(), "--cache-size", "0",
		"--runner", "kubernetes", "--namespace", m.config.Cluster.Namespace, "--shim-image", m.config.Image,
		"--service-accounts", strings.Join(append([]string{"default"}, m.config.Accounts...), ",")}
	if m.config.PullPolicy != "" {
		command = append(command, "--image-pull-policy", m.config.PullPolicy)
	}
	env := []any{variable("WHARF_KUBERNETES_OWNER_ENABLE", "true"), ofPod("WHARF_KUBERNETES_OWNER_NAME", "metadata.name"),
		ofPod("WHARF_KUBERNETES_OWNER_UID", "metadata.uid")}
	for _, pair := range m.config.Telemetry {
		name, _, _ := strings.Cut(pair, "=")
		env = append(env, ofSecret(name, m.secretName(launchKey)))
	}
	c := m.container(WorkerContainer, command, env, readOnly(volumeLaunch, launchFolder), readOnly(volumeAccount, accountFolder))
	c["ports"] = []any{object{"name": "results", "containerPort": int64(workerPort)}}
	// Once this probe has succeeded the container is ready until it ends: a node that is slow does not make it pending again.
	c["startupProbe"] = object{"tcpSocket": object{"port": int64(workerPort)}, "periodSeconds": int64(1), "failureThreshold": int64(600)}
	return c
}

// variable describes an environment variable whose value is taken as it is: Kubernetes would replace $(NAME).
func variable(name, value string) object {
	return object{"name": name, "value": strings.ReplaceAll(value, "$", "$$")}
}

func ofPod(name, field string) object {
	return object{"name": name, "valueFrom": object{"fieldRef": object{"fieldPath": field}}}
}

// ofSecret describes a variable that has a key of a Secret. Without the key, as when another process has made the Secret, it is not set.
func ofSecret(name, secret string) object {
	return object{"name": name, "valueFrom": object{"secretKeyRef": object{"name": secret, "key": name, "optional": true}}}
}

func readOnly(volume, path string) object {
	return object{"name": volume, "mountPath": path, "readOnly": true}
}

func (m workerManifest) volumes() []any {
	const mode = int64(0o440) // root's, read by the group of the containers
	volumes := []any{
		object{"name": volumeWork, "emptyDir": object{}},
		object{"name": volumeLaunch, "secret": object{"secretName": m.secretName(launchKey), "defaultMode": mode}},
		object{"name": volumeAccount, "projected": object{"defaultMode": mode, "sources": []any{
			object{"serviceAccountToken": object{"path": "token", "expirationSeconds": int64(3607)}},
			object{"configMap": object{"name": "kube-root-ca.crt", "items": []any{object{"key": "ca.crt", "path": "ca.crt"}}}},
			object{"downwardAPI": object{"items": []any{object{"path": "namespace", "fieldRef": object{"fieldPath": "metadata.namespace"}}}}},
		}}},
	}
	if m.credentials != nil {
		volumes = append(volumes, object{"name": volumeCredentials,
			"secret": object{"secretName": m.secretName(credentialsKey), "defaultMode": mode}})
	}
	return volumes
}

// secretName returns the name of the Secret with a key.
func (m workerManifest) secretName(key string) string {
	if key == credentialsKey {
		return m.name + "-credentials"
	}
	return m.name
}

// secrets returns the contents of the Secrets by their keys. Each is for one container.
func (m workerManifest) secrets() map[string][]byte {
	all := map[string][]byte{launchKey: m.given}
	if m.credentials != nil {
		all[credentialsKey] = m.credentials
	}
	return all
}

// secret describes a Secret, which is deleted with the pod.
func (m workerManifest) secret(key, uid string, content []byte) *unstructured.Unstructured {
	data := object{key: string(content)}
	if key == launchKey {
		for _, pair := range m.config.Telemetry {
			name, value, _ := strings.Cut(pair, "=")
			data[name] = value
		}
	}
	return &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
		"stringData": data, "metadata": object{
			"name": m.secretName(key), "namespace": m.config.Cluster.Namespace, "labels": m.labels(),
			"ownerReferences": []any{object{"apiVersion": "v1", "kind": "Pod", "name": m.name, "uid": uid}},
		}}}
}
