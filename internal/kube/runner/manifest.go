package runner

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/build"
)

// Labels of pods. The first three describe a pod, for people; the runner finds its pods by the last one.
const (
	labelBuild = "wharf.iver.com/buildRef"
	labelStage = "wharf.iver.com/stage"
	labelStep  = "wharf.iver.com/step"
	labelBy    = "app.kubernetes.io/managed-by"
	labelFrom  = "waybill.dev/from"
	labelRun   = "waybill.dev/run" // one run of a build: numbers of builds are those of one computer
)

// managedBy is the value of labelBy.
const managedBy = "waybill"

// Folders in the step's container.
const (
	secretsFolder = "/mnt/waybill-secrets" //nolint:gosec // a path
	volumeRepo    = "repo"
	volumeShim    = "waybill"
)

// Keys of a pod's Secret.
const (
	keyToken    = "token"
	keyCommands = "commands"
)

// object is a JSON object.
type object = map[string]any

// podName returns the same name for the same attempt, so that a create that timed out finds its own pod.
func podName(step build.PlanStep, key ...string) string {
	name := sanitize("wharf-build-" + step.Type + "-" + step.Name)
	name = strings.TrimRight(name[:min(len(name), 41)], "-") + "-"
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return name + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:8])
}

var (
	notInNames  = regexp.MustCompile(`[^a-z0-9]+`)
	notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

func sanitize(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// label returns a text as a label can have it.
func label(text string) string {
	text = notInLabels.ReplaceAllString(text, "-")
	return strings.Trim(text[:min(len(text), 63)], "-._")
}

// manifest describes the pod of one attempt. It is pure, and has no secrets: these are in the pod's Secret, which has its name.
type manifest struct {
	Config
	run       build.Run
	name      string
	namespace string
	runs      string // the value of labelRun
}

func (m manifest) pod() object {
	spec := m.run.Step.Spec
	containers := []any{m.step(), m.results()}
	var names []any
	for i, service := range spec.Services {
		containers = append(containers, m.service(i, service))
		names = append(names, service.Name)
	}
	account := spec.ServiceAccount
	if account == "" {
		account = "default"
	}
	podSpec := object{
		"restartPolicy": "Never", "nodeSelector": object{"kubernetes.io/os": "linux"},
		"serviceAccountName": account, "automountServiceAccountToken": spec.Token, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": seconds(m.Grace) + 5, "activeDeadlineSeconds": seconds(m.deadline()),
		"initContainers": []any{m.init()}, "containers": containers, "volumes": m.volumes(),
		"tolerations": []any{away("unreachable"), away("not-ready")},
	}
	if len(names) > 0 {
		podSpec["hostAliases"] = []any{object{"ip": "127.0.0.1", "hostnames": names}}
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": m.metadata(), "spec": podSpec}
}

// away has a pod be removed soon from a node that does not answer, rather than after the usual five minutes.
func away(taint string) object {
	return object{"key": "node.kubernetes.io/" + taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(60)}
}

// copyTime is the time for copying a step's files after the step's own time, on a slow connection.
const copyTime = time.Hour

// deadline ends the pod when nothing else does.
func (m manifest) deadline() time.Duration {
	limit := m.run.Step.Timeout
	if limit == 0 {
		limit = m.Timeout
	}
	return limit + m.Grace + copyTime
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (m manifest) metadata() object {
	step := m.run.Step
	labels := object{labelBuild: label(m.run.Build), labelStage: label(step.Stage), labelStep: label(step.Name),
		labelBy: managedBy, labelRun: m.runs}
	if m.From != "" {
		labels[labelFrom] = label(m.From)
	}
	meta := object{
		"name": m.name, "namespace": m.namespace,
		"labels": labels,
		"annotations": object{
			labelBuild: m.run.Build, labelStage: step.Stage, labelStep: step.Name, "wharf.iver.com/attempt": strconv.Itoa(m.run.Attempt),
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "kubectl.kubernetes.io/default-container": containerStep,
		},
	}
	if m.Owner != nil {
		meta["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "Pod", "name": m.Owner.Name, "uid": m.Owner.UID,
			"controller": true, "blockOwnerDeletion": true}}
	}
	return meta
}

// secret describes the pod's Secret, which is deleted with the pod.
func (m manifest) secret(uid, token string) object {
	data := object{keyToken: token}
	if spec := m.run.Step.Spec; spec.Secret {
		data[keyCommands] = spec.Argv[len(spec.Argv)-1]
	}
	for _, pair := range m.run.Environ {
		name, value, _ := strings.Cut(pair, "=")
		data["environ."+name] = value
	}
	return object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": data, "metadata": object{
		"name": m.name, "namespace": m.namespace, "labels": m.metadata()["labels"],
		"ownerReferences": []any{object{"apiVersion": "v1", "kind": "Pod", "name": m.name, "uid": uid}},
	}}
}

// shimContainer describes a container of the shim's image.
func (m manifest) shimContainer(name, shim string) object {
	return object{
		"name": name, "image": m.ShimImage, "imagePullPolicy": m.pull(m.ShimImage), "command": []any{"waybill", "shim", shim},
		"env":          []any{fromSecret(shimv1.EnvToken, m.name, keyToken), value(shimv1.EnvSilence, (2 * m.Silence).String())},
		"resources":    object{"requests": object{"cpu": "10m", "memory": "32Mi"}},
		"volumeMounts": sharedMounts(),
	}
}

func (m manifest) init() object    { return m.shimContainer(containerInit, "init") }
func (m manifest) results() object { return m.shimContainer(containerResults, "serve") }

func sharedMounts() []any {
	return []any{object{"name": volumeRepo, "mountPath": shimv1.Repo}, object{"name": volumeShim, "mountPath": shimv1.Folder}}
}

func (m manifest) step() object {
	spec := m.run.Step.Spec
	argv := slices.Clone(spec.Argv)
	if spec.Secret { // sh -c COMMANDS becomes sh FILE
		argv = argv[:1]
	}
	command := []any{path.Join(shimv1.Folder, shimv1.Program), "shim", "exec", "--"}
	for _, a := range argv {
		command = append(command, verbatim(a))
	}
	mounts := sharedMounts()
	for i, mount := range spec.Mounts {
		mounts = append(mounts, object{"name": mountName(i), "mountPath": mount.Path, "readOnly": true})
	}
	for i := range spec.Secrets {
		mounts = append(mounts, object{"name": secretName(i), "mountPath": secretFolder(i), "readOnly": true})
	}
	container := object{
		"name": containerStep, "image": spec.Image, "imagePullPolicy": m.pull(spec.Image), "command": command, "workingDir": shimv1.Repo,
		"env": m.environ(), "resources": m.resources(), "volumeMounts": mounts,
	}
	if spec.Build != nil && spec.Build.Address == "" { // BuildKit without root makes namespaces of its own
		unconfined := object{"type": "Unconfined"}
		container["securityContext"] = object{"seccompProfile": unconfined, "appArmorProfile": unconfined}
	}
	var from []any
	for _, s := range spec.Secrets {
		if s.Key == "" {
			from = append(from, object{"secretRef": object{"name": s.Object}})
		}
	}
	if len(from) > 0 {
		container["envFrom"] = from
	}
	return container
}

// verbatim keeps $(NAME) and $$ as they are, of which Kubernetes would make the variable's value and $.
func verbatim(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func (m manifest) environ() []any {
	run, spec := m.run, m.run.Step.Spec
	env := []any{
		value("CI", "true"), value("WAYBILL", "true"), value("WAYBILL_BUILD_ID", run.Build), value("WAYBILL_STEP_ID", strconv.Itoa(run.Step.ID)),
		value("WAYBILL_STAGE", run.Step.Stage), value("WAYBILL_STEP", run.Step.Name), value("WAYBILL_ATTEMPT", strconv.Itoa(run.Attempt)),
		value("WAYBILL_WORKSPACE", shimv1.Repo), value("GIT_CONFIG_COUNT", "1"), value("GIT_CONFIG_KEY_0", "safe.directory"),
		value("GIT_CONFIG_VALUE_0", shimv1.Repo),
		value(shimv1.EnvGrace, m.Grace.String()), value(shimv1.EnvSilence, m.Silence.String()),
	}
	if run.Trace != "" {
		env = append(env, value("TRACEPARENT", run.Trace))
	}
	for _, pair := range spec.Environ {
		name, text, _ := strings.Cut(pair, "=")
		env = append(env, value(name, text))
	}
	var masked, mounted []string
	for _, pair := range run.Environ {
		name, _, _ := strings.Cut(pair, "=")
		env, masked = append(env, fromSecret(name, m.name, "environ."+name)), append(masked, name)
	}
	if spec.Secret {
		env = append(env, fromSecret(shimv1.EnvCommands, m.name, keyCommands))
	}
	for i, s := range spec.Secrets {
		if s.Key != "" {
			env = append(env, fromSecret(s.Name, s.Object, s.Key))
		}
		mounted = append(mounted, secretFolder(i))
	}
	if services := m.services(); services != "" {
		env = append(env, value(shimv1.EnvServices, services))
	}
	return append(env, value(shimv1.EnvSecrets, strings.Join(masked, ",")), value(shimv1.EnvMounted, strings.Join(mounted, ",")))
}

func value(name, text string) object { return object{"name": name, "value": verbatim(text)} }

func fromSecret(name, secret, key string) object {
	return object{"name": name, "valueFrom": object{"secretKeyRef": object{"name": secret, "key": key}}}
}

// services returns the services that exec waits for, as JSON; "" for nothing.
func (m manifest) services() string {
	var list []shimv1.Service
	for _, s := range m.run.Step.Spec.Services {
		if s.Ready > 0 && len(s.Ports) > 0 {
			list = append(list, shimv1.Service{Name: s.Name, Ports: s.Ports, Seconds: int(seconds(s.Ready))})
		}
	}
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "" // never: it has texts and numbers
	}
	return string(text)
}

// serviceName returns the name of a service's container.
func serviceName(i int, s build.Service) string {
	name := fmt.Sprintf("service-%d-%s", i, sanitize(s.Name))
	return strings.TrimRight(name[:min(63, len(name))], "-")
}

// service describes a container beside the step's, which it reaches at 127.0.0.1 under the service's name.
func (m manifest) service(i int, s build.Service) object {
	container := object{"name": serviceName(i, s), "image": s.Image, "imagePullPolicy": m.pull(s.Image),
		"resources": object{"requests": object{"cpu": "100m", "memory": "128Mi"}}}
	var env, command []any
	for _, pair := range s.Environ {
		name, text, _ := strings.Cut(pair, "=")
		env = append(env, value(name, text))
	}
	for _, a := range s.Argv {
		command = append(command, verbatim(a))
	}
	if len(env) > 0 {
		container["env"] = env
	}
	if len(command) > 0 {
		container["command"] = command
	}
	return container
}

// resources returns requests and limits. A request that is not set is that of small steps, or the limit if that is less.
func (m manifest) resources() object {
	spec := m.run.Step.Spec
	requests, limits := object{}, object{}
	for _, r := range []struct {
		name                  string
		request, limit, small int64
		unit                  string
	}{
		{"cpu", spec.Requests.CPU, spec.Limits.CPU, 100, "m"},
		{"memory", spec.Requests.Memory, spec.Limits.Memory, 128 << 20, ""},
		{"ephemeral-storage", spec.Requests.Storage, spec.Limits.Storage, 0, ""},
	} {
		if r.request == 0 {
			r.request = r.small
			if r.limit > 0 && (r.request == 0 || r.limit < r.request) {
				r.request = r.limit
			}
		}
		if r.request > 0 {
			requests[r.name] = strconv.FormatInt(r.request, 10) + r.unit
		}
		if r.limit > 0 {
			limits[r.name] = strconv.FormatInt(r.limit, 10) + r.unit
		}
	}
	return object{"requests": requests, "limits": limits}
}

// pull has tags be looked up each time: a node may have an older image of the same name.
func (m manifest) pull(image string) string {
	switch {
	case m.PullPolicy != "":
		return m.PullPolicy
	case strings.Contains(image, "@sha256:"), image == m.ShimImage:
		return "IfNotPresent"
	}
	return "Always"
}

func mountName(i int) string    { return fmt.Sprintf("mount-%d", i) }
func secretName(i int) string   { return fmt.Sprintf("secret-%d", i) }
func secretFolder(i int) string { return fmt.Sprintf("%s/%d", secretsFolder, i) }

func (m manifest) volumes() []any {
	spec := m.run.Step.Spec
	volumes := []any{object{"name": volumeRepo, "emptyDir": object{}}, object{"name": volumeShim, "emptyDir": object{}}}
	for i, mount := range spec.Mounts {
		source, kind, named := object{}, "configMap", "name"
		if mount.Kind == build.MountSecret {
			kind, named = "secret", "secretName"
		}
		source[named] = mount.Object
		if mount.Key != "" {
			source["items"] = []any{object{"key": mount.Key, "path": mount.Name}}
		}
		volumes = append(volumes, object{"name": mountName(i), kind: source})
	}
	for i, s := range spec.Secrets {
		source := object{"secretName": s.Object}
		if s.Key != "" {
			source["items"] = []any{object{"key": s.Key, "path": s.Key}}
		}
		volumes = append(volumes, object{"name": secretName(i), "secret": source})
	}
	return volumes
}
