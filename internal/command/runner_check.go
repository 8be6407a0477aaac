package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Cluster is access to a cluster of Kubernetes.
type Cluster struct {
	Kubeconfig string // full path of a file
	Context    string // context in the file; "": its current one
}

// askTimeout bounds the check whether BuildKit answers.
const askTimeout = 20 * time.Second

// Check lists the steps that this computer cannot run, all at once, and the ignored keys as warnings.
func (r *Runner) Check(ctx context.Context, steps []build.PlanStep) fault.Problems {
	var problems fault.Problems
	silent := map[string]string{} // what askBuildKit has returned, by the configured address
	for _, step := range steps {
		add := func(code, format string, arguments ...any) {
			problems.Add(fault.Problem{Position: step.At, Code: code, Scope: step.Path(), Text: fmt.Sprintf(format, arguments...)})
		}
		spec := step.Spec
		if spec.OS == "windows" && runtime.GOOS != "windows" {
			add("os-unfit", "the step wants windows, and steps run as processes on this computer, which has %s", runtime.GOOS)
			continue
		}
		missing := missingTools(spec)
		for _, tool := range missing {
			add("tool-missing", "program %s not found on this computer", tool)
		}
		if spec.Build != nil && missing == nil {
			at := spec.Build.Address
			if silent[at] == "" {
				silent[at] = askBuildKit(ctx, at)
			}
			if silent[at] != answers {
				add("buildkit-missing", "BuildKit does not answer: %s; start buildkitd, and name its address in %s", silent[at], build.BuildKitHost)
			}
		}
		hasCluster := func(name string) bool { _, ok := r.Clusters[name]; return ok }
		attempt.CheckMounts(spec, hasCluster, r.Certificates != "", add)
		if len(spec.Services) > 0 {
			add("services-unfit", "the step has services, which do not run as processes on this computer; they need containers")
		}
		if spec.Build != nil && len(spec.Build.SecretArgs) > 0 {
			add("secret-args-unfit",
				"BuildKit's client has secretArgs among its arguments, which every user of this computer can read; they need a container")
		}
		if spec.Limits != (build.Resources{}) || spec.Requests != (build.Resources{}) {
			problems.Add(fault.Problem{Position: step.At, Code: "resources-ignored", Scope: step.Path(), Warning: true,
				Text: "resources are ignored where steps run as processes on this computer"})
		}
	}
	problems.Sort()
	return problems
}

// missingTools lists the programs of a step that are not in PATH.
func missingTools(spec build.Spec) (missing []string) {
	tools := append([]string{localArgv(spec.Argv)[0]}, spec.Tools...)
	for i, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil && !slices.Contains(tools[:i], tool) {
			missing = append(missing, tool)
		}
	}
	return missing
}

// answers is the value that askBuildKit returns if BuildKit answers.
const answers = "yes"

// askBuildKit returns answers, or why BuildKit does not answer at an address, by default that of the environment.
func askBuildKit(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %s", askTimeout))
	defer cancel()
	asked := exec.CommandContext(ctx, build.BuildKitClient, "debug", "workers")
	if address != "" {
		asked.Env = append(os.Environ(), build.BuildKitHost+"="+address)
	}
	said, err := asked.CombinedOutput()
	if err == nil {
		return answers
	}
	if context.Cause(ctx) != nil {
		return context.Cause(ctx).Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	return fmt.Sprintf("%v: %.200q", err, line)
}

// localArgv returns a command with the client of a running BuildKit instead of one that starts its own.
func localArgv(argv []string) []string {
	argv = slices.Clone(argv)
	for i, word := range argv {
		if word == build.BuildKitCommand {
			argv[i] = build.BuildKitClient
		}
	}
	return argv
}

// specEnvironment returns the variables of a step's own. Those that have the paths of mounts get the paths that these files have on this
// computer, and are left out without them. folder is this user's alone.
func (r *Runner) specEnvironment(spec build.Spec, folder string) ([]string, error) {
	places := map[string]string{}
	for _, m := range spec.Mounts {
		if m.Variable == "" {
			continue
		}
		places[m.Variable] = ""
		switch {
		case m.Variable == build.KubeconfigVariable:
			place, err := r.Clusters[m.Object].kubeconfig(folder)
			if err != nil {
				return nil, err
			}
			places[m.Variable] = place
		case m.Object == build.CertificatesObject:
			places[m.Variable] = r.Certificates
		}
	}
	var environ []string
	for _, pair := range spec.Environ {
		name, _, _ := strings.Cut(pair, "=")
		switch place, mounted := places[name]; {
		case !mounted:
			environ = append(environ, pair)
		case place != "":
			environ = append(environ, name+"="+place)
		}
	}
	return environ, nil
}

// kubeconfig returns the value of KUBECONFIG for a cluster: the file, after one in the folder that selects the
// context.
func (c Cluster) kubeconfig(folder string) (string, error) {
	if c.Context == "" {
		return c.Kubeconfig, nil
	}
	selects := filepath.Join(folder, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: %q\n", c.Context)
	if err := os.WriteFile(selects, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("select the context %s: %w", c.Context, err)
	}
	return selects + string(filepath.ListSeparator) + c.Kubeconfig, nil
}
