package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/runner"
)

// RunnerKubernetes names the runner that runs steps as pods. It is never chosen on its own: the cluster that kubectl
// would use may be one that matters.
const RunnerKubernetes = "kubernetes"

// KubernetesParallel is the number of steps that run at a time in a cluster, unless a flag sets another.
const KubernetesParallel = 20

// ClusterOptions choose the cluster that runs the steps.
type ClusterOptions struct {
	Kubeconfig, Context, Namespace, Image, Pull string
	Accounts                                    string        // accounts that steps may have, with commas between them; "": any
	PullDeadline                                time.Duration // 0: the runner's own
}

// check returns an error for values that mean nothing with the runner.
func (f ClusterOptions) check(runner string, inPlace bool) error {
	if runner != RunnerKubernetes {
		if f != (ClusterOptions{}) {
			return fault.New(fault.Invalid,
				"--kubeconfig, --context, --namespace, --shim-image, --image-pull-policy, --service-accounts and --pull-deadline "+
					"are for --runner %s", RunnerKubernetes)
		}
		return nil
	}
	switch {
	case f.Image == "":
		return fault.New(fault.Invalid, "--runner kubernetes needs --shim-image: an image that has waybill in its PATH").
			WithHint("waybill run --runner kubernetes --shim-image REGISTRY/waybill:VERSION")
	case inPlace:
		return fault.New(fault.Invalid, "--in-place and --runner kubernetes exclude each other: pods do not see the folder")
	}
	if f.PullDeadline < 0 {
		return fault.New(fault.Invalid, "--pull-deadline %s: want zero or more", f.PullDeadline)
	}
	switch f.Pull {
	case "", "Always", "IfNotPresent", "Never":
		return nil
	}
	return fault.New(fault.Invalid, "--image-pull-policy %q: want Always, IfNotPresent or Never", f.Pull)
}

// pods runs steps in a cluster. The build's pods are gone once it is closed.
func (b *Builder) pods(ctx context.Context, j job) (chosenRunner, error) {
	r, err := b.newKubernetesRunner(j)
	if err != nil {
		return chosenRunner{}, err
	}
	return chosenRunner{Runner: r, name: RunnerKubernetes, word: "runner kubernetes (" + r.Where() + ")", close: func() error {
		if left := r.Close(ctx); left != nil {
			return fault.Wrap(fault.Unavailable, left)
		}
		return nil
	}}, nil
}

// newKubernetesRunner returns a runner for one build.
func (b *Builder) newKubernetesRunner(j job) (*runner.Runner, error) {
	f := j.flags.Kubernetes
	owner, err := runner.OwnerFrom(b.Environment)
	if err != nil {
		return nil, err
	}
	config := kube.Config{Context: f.Context, Namespace: f.Namespace, Search: true}
	if f.Kubeconfig != "" {
		config.Kubeconfig = b.Path(f.Kubeconfig)
	}
	cluster, err := kube.Open(config)
	if err != nil {
		return nil, err
	}
	var accounts []string
	if f.Accounts != "" {
		accounts = strings.Split(f.Accounts, ",")
	}
	return runner.New(cluster, runner.Config{ShimImage: f.Image, PullPolicy: f.Pull, Owner: owner, Accounts: accounts, Cache: b.buildCache(j),
		From: thisUser(), PullDeadline: f.PullDeadline, Grace: j.flags.Grace, Timeout: j.plan.Timeout}), nil
}

// thisUser returns a name that this user of this computer has and others do not; "" if the computer has no name.
func thisUser() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(host + "\x00" + strconv.Itoa(os.Getuid())))
	return hex.EncodeToString(sum[:8])
}
