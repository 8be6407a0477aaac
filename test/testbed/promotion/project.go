package promotion

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
)

const (
	interval = 500 * time.Millisecond // between two looks at a system; those at a Git host start processes of it
	patience = 5 * time.Minute        // bounds each wait; a loaded machine needs a part of it
)

// Project is the pipeline of a namespace, and the repository in which it promotes.
type Project struct {
	Management *testbed.Cluster
	Namespace  string
	Name       string // the pipeline's; "": App
	Repository *testbed.Repository

	work *testbed.Clone // a clone of the repository
}

// path returns the file of the repository with an environment's version.
func path(environment string) string { return "clusters/" + environment + "/podinfo.yaml" }

// manifest returns the content of that file.
func (p *Project) manifest(environment, version string) string {
	return fmt.Sprintf(releaseManifest, App+"-"+environment, version, p.Namespace+":"+App+":"+environment)
}

// start clones the repository and pushes the first version of every environment.
func (p *Project) start(t testing.TB) {
	t.Helper()
	p.work = p.Repository.Clone(t)
	files := map[string]string{}
	for _, environment := range []string{Dev, Staging, Prod} {
		files[path(environment)] = p.manifest(environment, firstVersion)
	}
	p.work.Push(t, "main", "The first version everywhere", files)
}

// connect makes the GitopsCluster of a cluster, and the Secret that it names.
func (p *Project) connect(t testing.TB, name string, cluster *testbed.Cluster) {
	t.Helper()
	p.secret(t, name+"-kubeconfig", map[string]string{"kubeconfig": cluster.PortableKubeconfig(t)})
	p.Management.Apply(t, fmt.Sprintf(clusterManifest, name, p.Namespace))
}

// admit lets a user of the Git host write to the repository, and stores its credentials for the pipeline.
func (p *Project) admit(t testing.TB, user *testbed.GitHost) {
	t.Helper()
	p.Repository.Allow(t, user.User, "write")
	p.secret(t, "fleet-git", map[string]string{"username": user.User, "password": user.Token, "token": user.Token})
}

// Push brings a version to an environment by a commit on main, as a person does, and returns the commit.
func (p *Project) Push(t testing.TB, environment, version string) (commit string) {
	t.Helper()
	return p.work.Push(t, "main", "Podinfo "+version+" in "+environment,
		map[string]string{path(environment): p.manifest(environment, version)})
}

// File returns the file of the fleet repository with an environment's version, as it is on main.
func (p *Project) File(t testing.TB, environment string) string {
	t.Helper()
	return p.work.Read(t, "main", path(environment))
}

// secret creates or changes a Secret in the pipeline's namespace.
func (p *Project) secret(t testing.TB, name string, values map[string]string) {
	t.Helper()
	data := map[string]string{}
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": p.Namespace}, "data": data,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Management.Apply(t, string(object))
}

// Pipelines returns the pipelines of the example's namespace.
func (p *Project) Pipelines() dynamic.ResourceInterface {
	return p.Management.Dynamic.Resource(pipelines.Resource()).Namespace(p.Namespace)
}

// name returns the name of the pipeline.
func (p *Project) name() string { return cmp.Or(p.Name, App) }

// Pipeline returns the pipeline as it is.
func (p *Project) Pipeline(t testing.TB) pipelines.Pipeline {
	t.Helper()
	object, err := p.Pipelines().Get(t.Context(), p.name(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	var pipeline pipelines.Pipeline
	if err := json.Unmarshal(content, &pipeline); err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	return pipeline
}

// Await waits until a step holds.
func (p *Project) Await(t testing.TB, step Step) {
	t.Helper()
	again := time.NewTicker(interval)
	defer again.Stop()
	late := time.After(patience)
	for !step.Holds() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s: not so after %s\n%s", step.Name, patience, p.Describe(t))
		case <-t.Context().Done():
			t.Fatalf("%s: interrupted", step.Name)
		}
	}
}

// Proposals returns the pull requests of an environment for a version, in any state.
func (p *Project) Proposals(t testing.TB, environment, version string) (pulls []testbed.Pull) {
	t.Helper()
	for _, pull := range p.Repository.Pulls(t, "all") {
		if pull.Head.Name == "promotion-"+p.Namespace+"-"+p.name()+"-"+environment && strings.HasSuffix(pull.Title, " "+version) {
			pulls = append(pulls, pull)
		}
	}
	return pulls
}

// AwaitMerged waits until an environment has one pull request for a version, which is merged. A Git host records a merge
// after clones can see its commit, so an application may run the version before.
func (p *Project) AwaitMerged(t testing.TB, environment, version string) {
	t.Helper()
	p.Await(t, Step{Name: "one pull request of " + environment + " for " + version + " is merged", Holds: func() bool {
		pulls := p.Proposals(t, environment, version)
		return len(pulls) == 1 && pulls[0].Merged
	}})
}

// Proposal returns the newest of Proposals.
func (p *Project) Proposal(t testing.TB, environment, version string) (pull testbed.Pull, ok bool) {
	t.Helper()
	pulls := p.Proposals(t, environment, version)
	if len(pulls) == 0 {
		return pull, false
	}
	return pulls[0], true
}

// ReportCheck reports a check of the pull request of an environment, as a build would.
func (p *Project) ReportCheck(t testing.TB, environment, version, state string) {
	t.Helper()
	if pull, ok := p.Proposal(t, environment, version); ok {
		p.Repository.SetStatus(t, pull.Head.SHA, "validate", state)
	}
}

// Describe returns the state of the pipeline and of all pull requests, for people.
func (p *Project) Describe(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	object, err := p.Pipelines().Get(t.Context(), p.name(), metav1.GetOptions{})
	if err == nil {
		content, _ := json.Marshal(object.Object["status"]) // it came as JSON
		fmt.Fprintf(&b, "status of the pipeline: %s\n", content)
	}
	for _, pull := range p.Repository.Pulls(t, "all") {
		fmt.Fprintf(&b, "pull request %d: %s, %s, merged: %t, head %s\n", pull.Number, pull.Title, pull.State, pull.Merged, pull.Head.SHA)
	}
	return b.String()
}

// ID returns the name of the pipeline in commands.
func (p *Project) ID() string { return p.Namespace + ":" + p.name() }

// AwaitStatus waits until the status of the pipeline is as wanted.
func (p *Project) AwaitStatus(t testing.TB, name string, holds func(pipelines.PipelineStatus) bool) {
	t.Helper()
	p.Await(t, Step{Name: name, Holds: func() bool { return holds(p.Pipeline(t).Status) }})
}

// AwaitPhase waits until an environment is in a phase with the newest revision of dev.
func (p *Project) AwaitPhase(t testing.TB, environment, phase string) {
	t.Helper()
	p.AwaitStatus(t, environment+" is "+phase, func(status pipelines.PipelineStatus) bool {
		e := status.Environments[environment]
		return e.Phase == phase && e.Want == status.LatestRevision
	})
}

// AwaitReason waits until an environment is blocked for a reason.
func (p *Project) AwaitReason(t testing.TB, environment, reason string) {
	t.Helper()
	p.AwaitStatus(t, environment+" waits: "+reason, func(status pipelines.PipelineStatus) bool {
		return slices.ContainsFunc(status.Environments[environment].Blocked, func(b pipelines.Blocked) bool { return b.Reason == reason })
	})
}

// AwaitProposal waits until a pull request for an environment and a version is open, and returns it.
func (p *Project) AwaitProposal(t testing.TB, environment, version string) (pull testbed.Pull) {
	t.Helper()
	p.Await(t, Step{Name: version + " is proposed in " + environment, Holds: func() bool {
		found, ok := p.Proposal(t, environment, version)
		pull = found
		return ok && pull.State == "open"
	}})
	return pull
}
