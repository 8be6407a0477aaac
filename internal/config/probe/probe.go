// Package probe looks for what a configuration names and only the world can confirm: secrets, hosts, clusters, queues, the
// bucket.
package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// The codes of what a sound file names and is not there, or does not answer.
const (
	Missing     = "missing"
	Unreachable = "unreachable"
)

// lookPatience is how long one thing that the file names may take to answer.
const lookPatience = 10 * time.Second

// looker looks for what a configuration names. Everything is asked at once.
type looker struct {
	root *document.Node
	all  sync.WaitGroup

	mu       sync.Mutex
	problems fault.Problems
}

// All reports what a sound file names and is not there.
func All(ctx context.Context, path string, source []byte, cfg config.Config) fault.Problems {
	root, _ := yamltree.Parse(path, source, len(source)) // it was read before
	l := &looker{root: root}
	if strings.HasPrefix(cfg.Blob.URL, "s3://") {
		l.ask(ctx, []string{"blob", "url"}, func(ctx context.Context) error { return findBucket(ctx, cfg.Blob.URL) })
	}
	for name, h := range cfg.Handlers {
		at := []string{"handlers", name}
		for i, s := range h.Secrets {
			l.ask(ctx, append(at, "secrets", strconv.Itoa(i)), func(context.Context) error {
				_, err := secret.NewStore(s).Values(time.Now())
				return absent(err)
			})
		}
		switch {
		case h.Request != nil:
			l.ask(ctx, append(at, "request", "url"), func(ctx context.Context) error { return findHost(ctx, h) })
		case h.Argo != nil:
			l.cluster(ctx, at, cfg, h)
		case h.Cirrus != nil:
			l.cirrus(ctx, at, cfg, h)
		}
	}
	l.all.Wait()
	return l.problems
}

// ask looks for one thing; its problem stands where the path leads in the file.
func (l *looker) ask(ctx context.Context, path []string, look func(context.Context) error) {
	path = slices.Clone(path)
	l.all.Go(func() {
		ctx, stop := context.WithTimeoutCause(ctx, lookPatience, fmt.Errorf("no answer within %s", lookPatience))
		defer stop()
		err := look(ctx)
		if err == nil {
			return
		}
		p := fault.Problem{Position: l.at(path), Code: Unreachable, Scope: scopeOf(path), Text: inOneLine(err.Error())}
		if gone, ok := errors.AsType[notThere](err); ok {
			p.Code, p.Text = Missing, inOneLine(gone.Error())
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.problems = append(l.problems, p)
	})
}

// at returns the place of a path in the file.
func (l *looker) at(path []string) fault.Position { return positionOf(l.root, path) }

// positionOf returns the place of a path in a file, or of what is nearest above it.
func positionOf(n *document.Node, path []string) fault.Position {
	for _, key := range path {
		next := n.Get(key)
		if i, err := strconv.Atoi(key); err == nil && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.At
}

// scopeOf is a path as faults of the file write it.
func scopeOf(path []string) string {
	scope := ""
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil {
			scope = document.Index(scope, i)
			continue
		}
		scope = strings.TrimPrefix(scope+"."+key, ".")
	}
	return scope
}

// notThere is an error for what will not be there until somebody changes something.
type notThere struct{ error }

func (n notThere) Unwrap() error { return n.error }

func absent(err error) error {
	if err == nil {
		return nil
	}
	return notThere{err}
}

// findHost resolves the host of a webhook whose host is the same for every action, and asks the address guard. A proxy
// looks for the host itself: then it is the proxy's that is resolved.
func findHost(ctx context.Context, h config.Handler) error {
	if !h.Request.URL.HostConstant() {
		return nil
	}
	some := map[string]any{}
	for _, p := range h.Parameters {
		some[p.Name] = "x"
	}
	address, err := h.Request.Address(some, nil)
	if err != nil {
		return nil //nolint:nilerr // its path depends on parameters in ways that only an action shows
	}
	via, err := h.Request.Proxy.For(address)
	if err != nil {
		return absent(err)
	}
	if via != nil {
		_, err := addressesOf(ctx, via.Hostname())
		return err
	}
	found, err := addressesOf(ctx, address.Hostname())
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(found, func(a netip.Addr) bool { return h.Request.Guard.Check(a) == nil }); i >= 0 {
		return nil
	}
	return absent(h.Request.Guard.Check(found[0]))
}

// addressesOf is the addresses of a host.
func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if wrong, ok := errors.AsType[*net.DNSError](err); ok && wrong.IsNotFound {
		return nil, notThere{fmt.Errorf("there is no host %s", host)}
	}
	return found, err
}

// findBucket asks for what lies in the blob store.
func findBucket(ctx context.Context, url string) error {
	store, err := blob.Open(ctx, url)
	if err != nil {
		return absent(err)
	}
	_, err = store.Folders(ctx, "action")
	if hint := fault.HintOf(err); hint != "" { // it answered, and somebody must do something
		return notThere{fmt.Errorf("%w; %s", err, hint)}
	}
	return err
}

// cluster looks for the templates that processes name, or asks whether the cluster knows workflows where they name none.
func (l *looker) cluster(ctx context.Context, at []string, cfg config.Config, h config.Handler) {
	cluster, err := Cluster(h)
	if err != nil {
		l.ask(ctx, append(at, "argoConf", "k8sOptions", "kubeconfig"), func(context.Context) error { return absent(err) })
		return
	}
	l.ask(ctx, append(at, "argoConf"), func(ctx context.Context) error {
		_, err := cluster.Resource(kube.Workflows()).Namespace(cluster.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return refusedBy(err, "list the workflows in "+cluster.Namespace)
	})
	for process, o := range cfg.ArgoProcesses(h.Name) {
		l.ask(ctx, []string{"workflows", process, "argoOpts", "template"}, func(ctx context.Context) error {
			return findTemplate(ctx, cluster, o.Template)
		})
	}
}

func findTemplate(ctx context.Context, cluster *kube.Cluster, path string) error {
	kind, name, _ := strings.Cut(path, "/")
	var templates dynamic.ResourceInterface = cluster.Resource(kube.ClusterWorkflowTemplates())
	if kind == "workflowtemplate" {
		templates = cluster.Resource(kube.WorkflowTemplates()).Namespace(cluster.Namespace)
	}
	_, err := templates.Get(ctx, name, metav1.GetOptions{})
	return refusedBy(err, "look for "+path+" in "+cluster.Namespace)
}

// refusedBy tells what a cluster says of what is asked from what keeps it from answering.
func refusedBy(err error, doing string) error {
	if err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return notThere{fmt.Errorf("%s: %w", doing, err)}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// cirrus looks for a handler's queues, and for the state machines of its processes.
func (l *looker) cirrus(ctx context.Context, at []string, cfg config.Config, h config.Handler) {
	conf := append(at, "cirrusConf")
	account, err := Account(ctx, h)
	if err != nil {
		l.ask(ctx, conf, func(context.Context) error { return absent(err) })
		return
	}
	for key, queue := range map[string]string{"sqsUrl": h.Cirrus.SqsURL, "eventsQueueUrl": h.Cirrus.EventsQueueURL} {
		if queue != "" {
			l.ask(ctx, append(conf, key), func(ctx context.Context) error { return judged(account.FindQueue(ctx, queue)) })
		}
	}
	machines := cfg.CirrusProcesses(h.Name)
	for _, process := range slices.Sorted(maps.Keys(machines)) {
		if arn := machines[process]; arn != "" {
			l.ask(ctx, []string{"workflows", process, "cirrusOpts", "sfnArn"}, func(ctx context.Context) error {
				return judged(account.FindMachine(ctx, arn))
			})
		}
	}
}

// judged tells what AWS says of what is asked from what keeps it from answering.
func judged(err error) error {
	if err == nil {
		return nil
	}
	if _, code := aws.Judge(err); code == Unreachable {
		return err
	}
	return notThere{err}
}

// Cluster makes a client of the cluster where a handler's workflows are.
func Cluster(cfg config.Handler) (*kube.Cluster, error) {
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Argo.Kubeconfig, Context: cfg.Argo.Context, Namespace: cfg.Argo.Namespace})
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", cfg.Name, err)
	}
	return cluster, nil
}

// Account makes a client of the account where a handler's work is done.
func Account(ctx context.Context, cfg config.Handler) (*aws.Account, error) {
	account, err := aws.Open(ctx, aws.Config{Region: cfg.Cirrus.Region, Endpoint: cfg.Cirrus.Endpoint, Profile: cfg.Cirrus.Profile})
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", cfg.Name, err)
	}
	return account, nil
}

// Regions reports the handlers for AWS that have a region neither in the file nor in the environment or the profile: an instance that
// serves one of them would not start.
func Regions(ctx context.Context, path string, source []byte, cfg config.Config) (problems fault.Problems) {
	root, _ := yamltree.Parse(path, source, len(source)) // it was read before
	for name, h := range cfg.Handlers {
		if h.Cirrus == nil {
			continue
		}
		if _, err := Account(ctx, h); err != nil {
			at := []string{"handlers", name, "cirrusConf"}
			problems = append(problems, fault.Problem{Position: positionOf(root, at), Code: "field-missing", Scope: scopeOf(at), Text: inOneLine(err.Error())})
		}
	}
	return problems
}

// inOneLine returns a text without line breaks: a problem is one line.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
