//go:build services

package flow_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
)

// reader follows a page of the documentation in a terminal, in the folder of the repository.
type reader struct {
	t           *testing.T
	cluster     *testbed.Cluster
	repository  string
	environment []string
}

// TestThePageOfFlows: the commands of "The first flow" keep its promises on a cluster with Knative. Instead of an image, the
// program runs with a kubeconfig.
func TestThePageOfFlows(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	testbed.Knative(t, cluster)
	cluster.DefaultKnative(t)
	r := newReader(t, cluster)
	for _, command := range r.commands("The first flow") {
		switch {
		case strings.Contains(command, "config/flow/deploy.yaml"):
			r.run(command)
			r.serve()
		case strings.HasSuffix(command, " -w"):
			r.watch(command, "orders", "True")
			r.run("kubectl wait --for condition=Ready ef/orders -n shop")
		case strings.HasPrefix(command, "kubectl delete broker"):
			before := r.run("kubectl get broker default -n shop -o jsonpath={.metadata.uid}")
			r.run(command)
			r.run("kubectl wait --for create --timeout 60s broker/default -n shop")
			r.run("kubectl wait --for condition=Ready --timeout 60s ef/orders -n shop")
			if after := r.run("kubectl get broker default -n shop -o jsonpath={.metadata.uid}"); after == before {
				t.Errorf("%s: the Broker is the same", command)
			}
		case strings.Contains(command, "returns.yaml"):
			r.run(command)
			r.run("kubectl wait --for condition=Ready --timeout 60s ef/returns -n shop")
		case strings.Contains(command, "stays for returns"):
			r.run(command)
			if out := r.run("kubectl get broker default -n shop -o jsonpath={.metadata.deletionTimestamp}"); out != "" {
				t.Errorf("%s: the Broker is being deleted since %s", command, out)
			}
		case strings.Contains(command, "leaves with it"):
			r.run(command)
			cluster.AwaitGone(t, cluster.Dynamic.Resource(brokers).Namespace("shop"), "default")
		case strings.HasPrefix(command, "waybill flow show"):
			if out := r.run(command); !strings.Contains(out, "Broker shop/default") || !strings.Contains(out, "SubscriptionReady") {
				t.Errorf("%s:\n%s", command, out)
			}
		default:
			r.run(command)
		}
	}
	left, err := cluster.Dynamic.Resource(v1alpha1.Resource()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("the flows in the end: %v %v", left, err)
	}
}

// newReader has kubectl, waybill, and a kubeconfig with the context that the page names.
func newReader(t *testing.T, cluster *testbed.Cluster) *reader {
	t.Helper()
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	programs, home := testbed.Kubectl(t), t.TempDir()
	if err := os.Symlink(product.Path(t, repository), filepath.Join(programs, "waybill")); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	write(t, kubeconfig, cluster.PortableKubeconfig(t))
	r := &reader{t: t, cluster: cluster, repository: repository, environment: append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"),
		"KUBECONFIG="+kubeconfig, "HOME="+home)}
	r.run("kubectl config rename-context $(kubectl config current-context) dev")
	return r
}

// commands returns the lines after a prompt in a section of the page.
func (r *reader) commands(section string) (found []string) {
	r.t.Helper()
	page, err := os.ReadFile(filepath.Join(r.repository, "docs", "flows.md"))
	if err != nil {
		r.t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "$ "); is {
			found = append(found, command)
		}
	}
	if len(found) < 8 {
		r.t.Fatalf("the section %q has the commands %q", section, found)
	}
	return found
}

// run runs a command, which must succeed, and returns its output.
func (r *reader) run(command string) string {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "sh", "-c", command)
	c.Dir, c.Env, c.WaitDelay = r.repository, r.environment, 10*time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// watch runs a command that prints changes until a line has all words.
func (r *reader) watch(command string, words ...string) {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "sh", "-c", "exec "+command)
	c.Dir, c.Env, c.WaitDelay = r.repository, r.environment, 10*time.Second
	out, err := c.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it was killed
	defer c.Process.Kill()
	late := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer late.Stop()
	var seen strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&seen, lines.Text())
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(lines.Text(), word)
		}
		if !missing {
			return
		}
	}
	r.t.Fatalf("%s: no line has %q:\n%s", command, words, seen.String())
}

// serve runs the role flow with the rights of its account.
func (r *reader) serve() {
	r.t.Helper()
	home := r.t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	write(r.t, kubeconfig, r.cluster.Account(r.t, "waybill", "waybill-flow"))
	write(r.t, filepath.Join(home, "server.yaml"), fmt.Sprintf("flow: {kubeconfig: %q, elect: false}\n", kubeconfig))
	testbed.RunProgram(r.t, testbed.Program{Name: "waybill serve flow",
		Argv: []string{product.Path(r.t, r.repository), "serve", "flow", "--home", home, "--listen", "127.0.0.1:0"}})
}
