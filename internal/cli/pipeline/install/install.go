// Package install makes the manifests with which Waybill runs in a management cluster, and applies them.
package install

import (
	"bytes"
	"context"
	_ "embed" // the manifests
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"text/template"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	clusters "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Options are the choices that the manifests leave.
type Options struct {
	Namespace string
	Image     string
	Ledger    string // URL of a PostgreSQL; "": SQLite on the volume
	URL       string // address for browsers and links; "": none is known
	Frozen    bool   // an empty log begins with a freeze of all pipelines
	// OldService is the original controller's Service, which is to lead to Waybill; nil: it is left alone.
	OldService *types.NamespacedName
}

//go:embed waybill.yaml
var manifests string

// imageReference is the form of the names of images. The container runtime judges them; this refuses a text that would be
// another YAML.
var imageReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`)

// check refuses options that no cluster would accept.
func (o Options) check() error {
	switch {
	case len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return fault.New(fault.Invalid, "%q is not the name of a namespace", o.Namespace)
	case !imageReference.MatchString(o.Image):
		return fault.New(fault.Invalid, "%q is not the name of an image", o.Image)
	case o.OldService != nil && (len(validation.IsDNS1123Label(o.OldService.Namespace)) > 0 ||
		len(validation.IsDNS1035Label(o.OldService.Name)) > 0):
		return fault.New(fault.Invalid, "%q is not a Service: want NAMESPACE/NAME", o.OldService)
	}
	return nil
}

// Manifests returns the YAML of all objects, the definitions first.
func Manifests(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	parsed, err := template.New("waybill.yaml").Funcs(template.FuncMap{"quote": quote}).Parse(manifests)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(bytes.Clone(pipelines.Definition))
	out.Write(clusters.Definition)
	out.WriteString("---\n")
	if err := parsed.Execute(out, o); err != nil {
		return nil, fmt.Errorf("make the manifests: %w", err)
	}
	return out.Bytes(), nil
}

// quote returns a text as a scalar of YAML: JSON is a part of it.
func quote(text string) (string, error) {
	quoted, err := json.Marshal(text)
	return string(quoted), err
}

// Objects reads manifests. Secrets have their data in the form in which the server stores it: a server-side apply of
// stringData conflicts with each later one.
func Objects(manifests []byte) (list []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		if len(obj.Object) > 0 {
			encode(obj)
			list = append(list, obj)
		}
	}
}

// encode moves the texts of a Secret to its data.
func encode(secret *unstructured.Unstructured) {
	texts, found, _ := unstructured.NestedStringMap(secret.Object, "stringData")
	if !found {
		return
	}
	data := map[string]any{}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(secret.Object, "stringData")
	secret.Object["data"] = data
}

// FieldManager is the name under which the objects are applied. It differs from that of the running program, which
// owns the status of pipelines.
const FieldManager = "waybill-install"

// Applier applies objects to a cluster.
type Applier struct {
	To dynamic.Interface
	// Force overwrites fields that another manager has set to other values; else they are a conflict. Definitions are
	// always taken over.
	Force bool
	Done  func(name string) // called after each object
}

// Apply applies objects in their order.
func (a Applier) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		kind := obj.GroupVersionKind()
		var client dynamic.ResourceInterface = a.To.Resource(resourceOf(kind))
		if namespace := obj.GetNamespace(); namespace != "" {
			client = a.To.Resource(resourceOf(kind)).Namespace(namespace)
		}
		name := kind.Kind + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
		options := metav1.ApplyOptions{FieldManager: FieldManager, Force: a.Force || kind.Kind == "CustomResourceDefinition"}
		if _, err := client.Apply(ctx, obj.GetName(), obj, options); err != nil {
			return describe(err, name)
		}
		a.Done(name)
	}
	return nil
}

// describe returns the error of an object, with a way out.
func describe(err error, name string) error {
	var request *url.Error
	switch {
	case errors.As(err, &request): // its text is the whole address, with parameters that mean nothing to the reader
		return fault.New(fault.Unavailable, "apply %s: the cluster at %s cannot be reached: %w", name, hostOf(request.URL), request.Err).
			WithHint("kubectl cluster-info; --kubeconfig and --context name another cluster")
	case apierrors.IsConflict(err):
		return fault.New(fault.Conflict, "apply %s: %w", name, err).WithHint("--force overwrites the fields that others have set")
	case apierrors.IsForbidden(err):
		return fault.New(fault.Forbidden, "apply %s: %w", name, err).WithHint(
			"an administrator applies it: waybill pipeline install --print | kubectl apply -f -")
	case apierrors.IsUnauthorized(err):
		return fault.New(fault.Unauthorized, "apply %s: %w", name, err)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fault.New(fault.Refused, "apply %s: %w", name, err)
	}
	return fault.New(fault.Unavailable, "apply %s: %w", name, err)
}

// hostOf returns the address of the server of a request.
func hostOf(request string) string {
	parsed, err := url.Parse(request)
	if err != nil {
		return request
	}
	return parsed.Scheme + "://" + parsed.Host
}

// resourceOf returns the resource of a kind in the manifests. Each is a plural without exceptions.
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	return kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
}
