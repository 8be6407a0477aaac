package kube

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"strconv"

	"github.com/waybill-dev/waybill/internal/fault"
)

// PodScheme begins the text of a PodAddress.
const PodScheme = "pod"

// PodAddress is a port of a pod, for programs that reach the pod's cluster by ways of their own.
type PodAddress struct {
	Namespace, Pod string
	Port           int
	UID            string // two pods of one name differ
	IP             string // inside the cluster
}

// validName matches names of pods and namespaces.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// String returns pod://NAMESPACE/POD:PORT with UID and IP as a query.
func (a PodAddress) String() string {
	u := url.URL{Scheme: PodScheme, Host: a.Namespace, Path: "/" + a.Pod + ":" + strconv.Itoa(a.Port),
		RawQuery: url.Values{"uid": {a.UID}, "ip": {a.IP}}.Encode()}
	return u.String()
}

// ParsePodAddress reads the result of String.
func ParsePodAddress(text string) (PodAddress, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != PodScheme || !validName.MatchString(u.Host) || len(u.Path) < 2 {
		return PodAddress{}, fault.New(fault.Invalid, "the address %.200q: want %s://NAMESPACE/POD:PORT", text, PodScheme)
	}
	pod, port, err := net.SplitHostPort(u.Path[1:])
	number, portErr := strconv.Atoi(port)
	if err != nil || portErr != nil || number < 1 || number > 65535 || !validName.MatchString(pod) {
		return PodAddress{}, fault.New(fault.Invalid, "the address %.200q: want %s://NAMESPACE/POD:PORT", text, PodScheme)
	}
	return PodAddress{Namespace: u.Host, Pod: pod, Port: number, UID: u.Query().Get("uid"), IP: u.Query().Get("ip")}, nil
}

// In returns the same cluster with another namespace.
func (c *Cluster) In(namespace string) *Cluster {
	other := *c
	other.Namespace = namespace
	return &other
}

// DialPod connects to a pod: by its address from inside the cluster, else through the API server.
func (c *Cluster) DialPod(ctx context.Context, a PodAddress) (net.Conn, error) {
	return c.In(a.Namespace).Dialer().Dial(ctx, a.Pod, a.IP, a.Port)
}
