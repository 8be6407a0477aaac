package pool

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Kinds that lead to clusters.
var (
	gitopsKind = schema.GroupVersionKind{Group: "gitops.weave.works", Version: "v1alpha1", Kind: "GitopsCluster"}
	secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// fieldManager is the name under which this program writes status.
const fieldManager = "waybill"

// origin is the configuration of a cluster, or why there is none.
type origin struct {
	config   *rest.Config
	sum      [sha256.Size]byte
	why      promotion.Unseen
	message  string
	setReady bool // no other controller sets the condition Ready
}

// gitopsCluster is the kept part of a GitopsCluster.
type gitopsCluster struct {
	secret   string   // name
	keys     []string // keys of the Secret; the first that exists counts
	notReady string   // why another controller reports that it is not ready; "": none does
	foreign  bool     // another controller sets the condition Ready
	wrong    string
}

// readGitopsCluster returns the kept part of a GitopsCluster.
func readGitopsCluster(o *unstructured.Unstructured) *gitopsCluster {
	g := &gitopsCluster{}
	secret, _, _ := unstructured.NestedString(o.Object, "spec", "secretRef", "name")
	capi, _, _ := unstructured.NestedString(o.Object, "spec", "capiClusterRef", "name")
	switch {
	case secret != "":
		g.secret, g.keys = secret, []string{"kubeconfig", "value"}
	case capi != "":
		g.secret, g.keys = capi+"-kubeconfig", []string{"value"}
	default:
		g.wrong = "spec: want secretRef or capiClusterRef"
	}
	if len(g.secret) > maxText {
		g.secret, g.wrong = "", fmt.Sprintf("spec: a name is longer than %d bytes", maxText)
	}
	conditions := listOf(o, "status", "conditions")
	for _, one := range conditions[:min(len(conditions), maxConditions)] {
		condition, ok := one.(map[string]any)
		if !ok || condition["type"] != "Ready" || setByUs(o) {
			continue
		}
		g.foreign = true
		if condition["status"] == "False" {
			message, _ := condition["message"].(string)
			g.notReady = cmp.Or(cut(message, maxText), "its condition Ready is False")
		}
	}
	return g
}

// listOf returns a list of an object; nil if there is none.
func listOf(o *unstructured.Unstructured, path ...string) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	list, _ := value.([]any)
	return list
}

// setByUs reports whether this program has set the condition Ready.
func setByUs(o *unstructured.Unstructured) bool {
	for _, one := range listOf(o, "metadata", "managedFields") {
		entry, ok := one.(map[string]any)
		if !ok || entry["manager"] != fieldManager || entry["subresource"] != "status" {
			continue
		}
		fields, _ := entry["fieldsV1"].(map[string]any)
		owned, _, _ := unstructured.NestedMap(fields, "f:status", "f:conditions")
		if _, ours := owned[`k:{"type":"Ready"}`]; ours || owned != nil && len(owned) == 0 { // without keys the list is owned as a whole
			return true
		}
	}
	return false
}

// credentials is the kept part of a Secret with a kubeconfig.
type credentials struct {
	kubeconfigs map[string]kubeconfig // by their keys
}

// kubeconfig is a kubeconfig as it was read.
type kubeconfig struct {
	config *rest.Config
	sum    [sha256.Size]byte
	wrong  string
}

// readCredentials returns the kept part of a Secret.
func readCredentials(o *unstructured.Unstructured) *credentials {
	c := &credentials{kubeconfigs: map[string]kubeconfig{}}
	for _, key := range []string{"kubeconfig", "value"} {
		text, there, _ := unstructured.NestedString(o.Object, "data", key)
		if !there {
			continue
		}
		c.kubeconfigs[key] = readKubeconfig(text)
	}
	return c
}

func readKubeconfig(encoded string) (k kubeconfig) {
	k.sum = sha256.Sum256([]byte(encoded))
	if len(encoded) > 2*maxKubeconfig {
		k.wrong = fmt.Sprintf("kubeconfig: longer than %d bytes", maxKubeconfig)
		return k
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		k.config, err = ParseKubeconfig(text)
	}
	if err != nil {
		k.wrong = cut(err.Error(), maxText)
	}
	return k
}

// originOf finds the configuration of a cluster, and returns the objects that lead to it. The caller holds the mutex.
func (p *Pool) originOf(name string) (to origin, sources []Want) {
	if config, fixed := p.clusters[name]; fixed {
		return origin{config: config}, nil
	}
	namespace, object, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || object == "" {
		return origin{why: promotion.ClusterNotFound, message: fmt.Sprintf("cluster %q not found", name)}, nil
	}
	first := Want{GVK: gitopsKind, Namespace: namespace, Name: object}
	sources = []Want{first}
	found := p.lead(first)
	g, ok := found.value.(*gitopsCluster)
	if !ok {
		if found.why != promotion.ClusterNotFound { // whose message has the name
			found.message = "GitopsCluster " + name + ": " + found.message
		}
		return origin{why: found.why, message: found.message}, sources
	}
	to.setReady = !g.foreign
	if g.notReady != "" || g.wrong != "" {
		to.why, to.message = promotion.ClusterNotReady, "GitopsCluster "+name+": "+cmp.Or(g.notReady, g.wrong)
		return to, sources
	}
	second := Want{GVK: secretKind, Namespace: namespace, Name: g.secret}
	sources = append(sources, second)
	found = p.lead(second)
	c, ok := found.value.(*credentials)
	if !ok {
		to.why, to.message = found.why, "Secret "+namespace+"/"+g.secret+": "+found.message
		if to.why == promotion.ClusterNotFound {
			to.why, to.message = promotion.ClusterNotReady, found.message // it has the name
		}
		return to, sources
	}
	return g.choose(c, to, namespace), sources
}

// choose returns the origin with the kubeconfig of a Secret.
func (g *gitopsCluster) choose(c *credentials, to origin, namespace string) origin {
	for _, key := range g.keys {
		k, there := c.kubeconfigs[key]
		switch {
		case !there:
			continue
		case k.wrong != "":
			to.why, to.message = promotion.ClusterNotReady, fmt.Sprintf("Secret %s/%s, key %s: %s", namespace, g.secret, key, k.wrong)
		default:
			to.config = k.config
		}
		to.sum = k.sum
		return to
	}
	to.why = promotion.ClusterNotReady
	to.message = fmt.Sprintf("Secret %s/%s has no key %s", namespace, g.secret, strings.Join(g.keys, " or "))
	return to
}

// lead returns the knowledge of an object that leads to a cluster. While the management cluster is away, the
// last knowledge counts.
func (p *Pool) lead(w Want) sight {
	management := p.inUse[""]
	if management == nil {
		return sight{why: promotion.NotSynced, message: "it is being read"}
	}
	s := management.see(w.key(true), types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
	if s.why == promotion.TargetNotFound {
		s.why = promotion.ClusterNotFound
	}
	if s.value == nil && s.last != nil && s.why != promotion.ClusterNotFound {
		s.value = s.last
	}
	return s
}
