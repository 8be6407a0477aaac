package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
)

// Builder configures builds in workers.
type Builder struct {
	Instance    string // label of the workers of this log's builds, in every build environment; default waybill
	Key         string // file of the keys that the workers' tokens are made of; "" (default): builder.key in the home
	Provisioner Provisioner
	Watchdog    Watchdog
	Tools       build.Tools // what steps run that build images, deploy or pack; of an empty field the default
}

// Provisioner configures the start of workers, and the address of the process that starts them.
type Provisioner struct {
	URL       string // where conductors, aggregators and watchdogs reach it; "" (default): builds have no workers
	TokenFile string // file of the token that they show; "" (default): that of the home

	// The fields below are for the role provisioner.
	Listen      string            // host:port; default 127.0.0.1:5009
	Tokens      []string          // SHA-256 of tokens that it accepts besides those of the log, as 64 hex digits; in force at once
	Concurrent  int               // workers at a time; default 8
	PerProject  int               // workers of one project at a time; default 4
	Grace       time.Duration     // how long a worker may take to end; default 10m
	Linger      time.Duration     // how long a worker stays after its build's end for results that were not taken; default 24h
	Keep        time.Duration     // how long such results are kept after the worker's end; default 7d
	Host        string            // address at which local workers listen; default 127.0.0.1
	Advertise   string            // name or address by which readers reach Host; "" (default): Host
	Largest     int64             // bytes of a snapshot that is sent to a worker; default 1 GiB
	Docker      *WorkerDocker     // how workers run in containers; nil (default): they are processes
	Credentials map[string]string // files of git-credential-store, by the name that builds use

	// Kubernetes has the workers be pods, and configures how the provisioner and aggregators reach their cluster; nil
	// (default): they are processes.
	Kubernetes *Kubernetes
	StartLimit time.Duration // after which an aggregator ends a build whose worker has not started; default 10m
}

// Kubernetes configures workers in pods.
type Kubernetes struct {
	Kubeconfig     string   // a file; "" (default): the cluster that this process runs in
	Context        string   // in the file; "" (default): its current one
	Namespace      string   // namespace of the workers and their steps; "" (default): the context's, or that of this process
	Image          string   // has waybill and git in its PATH; needed by the role provisioner
	PullPolicy     string   // pull policy of images of workers and steps: Always, IfNotPresent or Never; "" (default): Kubernetes' own
	ServiceAccount string   // account of the workers; default waybill-worker
	Accounts       []string // service accounts that steps may name beside default
}

// WorkerDocker configures workers in containers of a Docker Engine.
type WorkerDocker struct {
	Host    string // address of the Engine; "" (default): that of DOCKER_HOST, else of this machine
	Image   string // image of the workers; with waybill and git
	Network string // in which readers are too; "" (default): ports are published where local workers would listen
	Memory  int64  // bytes that a worker may use, without its steps; 0 (default): no limit
}

// Watchdog sets the times of the search for builds without workers and workers without builds.
type Watchdog struct {
	Interval  time.Duration // between two rounds; default 5m
	WorkerAge time.Duration // above which a worker without a build is deleted; default 1m
	BuildAge  time.Duration // above which a build without a worker is lost; default 1m
}

func standardBuilder() Builder {
	return Builder{
		Instance: "waybill",
		Provisioner: Provisioner{Listen: "127.0.0.1:5009", Concurrent: 8, PerProject: 4, Grace: 10 * time.Minute, Linger: 24 * time.Hour,
			Keep: 7 * 24 * time.Hour, Host: "127.0.0.1", Largest: 1 << 30, StartLimit: 10 * time.Minute},
		Watchdog: Watchdog{Interval: 5 * time.Minute, WorkerAge: time.Minute, BuildAge: time.Minute},
	}
}

// builderKeys returns the keys of builder.
func builderKeys() []document.Key {
	return []document.Key{
		{Name: "instance", Shape: document.Text, Default: "waybill",
			Help: "label of the workers of this log's builds, in every build environment"},
		{Name: "key", Shape: document.Text, Help: "file of the keys that the workers' tokens are made of; default: builder.key in the home"},
		{Name: "provisioner", Shape: document.Object, Help: "what starts workers", Keys: []document.Key{
			{Name: "url", Shape: document.Text, Help: "where conductors, aggregators and watchdogs reach it; without it builds have no workers"},
			{Name: "tokenFile", Shape: document.Text, Help: "file of the token that they show; default: that of the home"},
			{Name: "listen", Shape: document.Text, Default: "127.0.0.1:5009", Help: "host:port of the role provisioner"},
			{Name: "tokens", Shape: document.Texts, Help: "SHA-256 of tokens that it accepts besides those of the log"},
			{Name: "concurrent", Shape: document.Number, Default: "8", Help: "workers at a time"},
			{Name: "perProject", Shape: document.Number, Default: "4", Help: "workers of one project at a time"},
			{Name: "grace", Shape: document.Scalar, Default: "10m", Help: "how long a worker may take to end before it is killed"},
			{Name: "linger", Shape: document.Scalar, Default: "24h",
				Help: "how long a worker stays after its build's end for results that were not taken"},
			{Name: "keep", Shape: document.Scalar, Default: "7d", Help: "how long such results are kept after the worker's end"},
			{Name: "workers", Shape: document.Object, Help: "where local workers serve their results", Keys: []document.Key{
				{Name: "listen", Shape: document.Text, Default: "127.0.0.1", Help: "address, without a port: each worker takes a free one"},
				{Name: "advertise", Shape: document.Text, Help: "name or address by which aggregators on other machines reach it; default: listen"},
			}},
			{Name: "docker", Shape: document.Object, Help: "have workers run as containers of a Docker Engine", Keys: []document.Key{
				{Name: "image", Shape: document.Text, Help: "image of the workers, with waybill and git"},
				{Name: "host", Shape: document.Text,
					Help: "address of the Engine, such as unix:///var/run/docker.sock; default: DOCKER_HOST, else that of this machine"},
				{Name: "network", Shape: document.Text,
					Help: "network of the Engine in which provisioner and aggregators are too; default: none, and ports are published"},
				{Name: "memory", Shape: document.Scalar, Help: "what a worker may use, without its steps; default: no limit"},
			}},
			{Name: "largestSnapshot", Shape: document.Scalar, Default: "1GiB",
				Help: "files of a revision, packed, that are sent to a worker of Docker or Kubernetes"},
			{Name: "credentials", Shape: document.ScalarMap, Help: "files of git-credential-store, by the name that builds use"},
			{Name: "startLimit", Shape: document.Scalar, Default: "10m",
				Help: "after this long aggregators end a build whose worker has not started"},
			{Name: "kubernetes", Shape: document.Object, Help: "workers are pods of this cluster", Keys: []document.Key{
				{Name: "kubeconfig", Shape: document.Text, Help: "file that names the cluster; default: the cluster that this process runs in"},
				{Name: "context", Shape: document.Text, Help: "context of the kubeconfig; default: its current one"},
				{Name: "namespace", Shape: document.Text, Help: "namespace of the workers and their steps; default: the context's"},
				{Name: "image", Shape: document.Text, Help: "image of the workers, with waybill and git in its PATH"},
				{Name: "imagePullPolicy", Shape: document.Text, Help: "of the images of workers and steps: Always, IfNotPresent or Never"},
				{Name: "serviceAccount", Shape: document.Text, Default: "waybill-worker", Help: "account of the workers, which runs the steps"},
				{Name: "accounts", Shape: document.Texts, Help: "accounts that steps may name by serviceAccount, beside default"},
			}},
		}},
		{Name: "tools", Shape: document.Object, Help: "what steps run that build images, deploy or pack", Keys: toolKeys()},
		{Name: "watchdog", Shape: document.Object, Help: "what looks for builds without workers and workers without builds", Keys: []document.Key{
			{Name: "interval", Shape: document.Scalar, Default: "5m", Help: "between two rounds"},
			{Name: "workerAge", Shape: document.Scalar, Default: "1m", Help: "a worker without a build is deleted when it is older"},
			{Name: "buildAge", Shape: document.Scalar, Default: "1m", Help: "a build without a worker is lost when it is older"},
		}},
	}
}

// Bounds of the settings of builder.
const (
	longestInstance = 40 // it is part of the names of pods
	mostTokens      = 100
	mostAccounts    = 100
	leastInterval   = 10 * time.Second
)

func (r *reader) builder(n *document.Node, b *Builder) {
	if v := n.Get("instance"); fits(v, document.Text) {
		b.Instance = r.label(v, "builder.instance")
	}
	b.Key = r.location(n.Get("key"), "file:")
	r.provisioner(n.Get("provisioner"), &b.Provisioner)
	r.tools(n.Get("tools"), &b.Tools)
	watchdog := n.Get("watchdog")
	for _, span := range []struct {
		name string
		into *time.Duration
	}{{"interval", &b.Watchdog.Interval}, {"workerAge", &b.Watchdog.WorkerAge}, {"buildAge", &b.Watchdog.BuildAge}} {
		if v := watchdog.Get(span.name); fits(v, document.Scalar) {
			*span.into = r.span(v, "builder.watchdog."+span.name)
		}
	}
	if v := watchdog.Get("interval"); fits(v, document.Scalar) && b.Watchdog.Interval < leastInterval {
		r.Add(v, "value-invalid", "builder.watchdog.interval", "want at least %s, found %q", leastInterval, v.Text)
	}
}

// label reads a name that may be part of a pod's name.
func (r *reader) label(n *document.Node, path string) string {
	valid := n.Text != "" && len(n.Text) <= longestInstance && !strings.HasPrefix(n.Text, "-") && !strings.HasSuffix(n.Text, "-")
	if !valid || strings.Trim(n.Text, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		r.Add(n, "value-invalid", path, "want at most %d lower-case letters, digits and inner hyphens, found %q", longestInstance, n.Text)
	}
	return n.Text
}

func (r *reader) provisioner(n *document.Node, p *Provisioner) {
	const path = "builder.provisioner."
	if v := n.Get("url"); fits(v, document.Text) {
		p.URL = r.base(v, path+"url")
	}
	p.TokenFile = r.location(n.Get("tokenFile"), "file:")
	if v := n.Get("listen"); fits(v, document.Text) {
		p.Listen = r.hostPort(v, path+"listen")
	}
	if v := n.Get("tokens"); fits(v, document.Texts) {
		if p.Tokens = n.Strs("tokens"); len(p.Tokens) > mostTokens || slices.ContainsFunc(p.Tokens, notDigest) {
			r.Add(v, "value-invalid", path+"tokens", "want at most %d digests of 64 hex digits: printf %%s TOKEN | sha256sum", mostTokens)
		}
	}
	if v := n.Get("concurrent"); fits(v, document.Number) {
		p.Concurrent = r.workers(v, path+"concurrent")
	}
	if v := n.Get("perProject"); fits(v, document.Number) {
		p.PerProject = r.workers(v, path+"perProject")
	}
	for _, span := range []struct {
		name string
		into *time.Duration
	}{{"grace", &p.Grace}, {"linger", &p.Linger}, {"keep", &p.Keep}, {"startLimit", &p.StartLimit}} {
		if v := n.Get(span.name); fits(v, document.Scalar) {
			if *span.into = r.span(v, path+span.name); *span.into < time.Second {
				r.Add(v, "value-invalid", path+span.name, "want at least 1s, found %q", v.Text)
			}
		}
	}
	r.localWorkers(n.Get("workers"), p)
	p.Docker = r.workerDocker(n.Get("docker"))
	r.largestSnapshot(n.Get("largestSnapshot"), p)
	r.credentials(n.Get("credentials"), p)
	p.Kubernetes = r.kubernetes(n.Get("kubernetes"))
}

// hostPort reads an address to listen on.
func (r *reader) hostPort(n *document.Node, path string) string {
	_, port, err := net.SplitHostPort(n.Text)
	if number, portErr := strconv.Atoi(port); err != nil || portErr != nil || number < 0 || number > 65535 {
		r.Add(n, "value-invalid", path, "want host:port such as 127.0.0.1:5009, found %q", n.Text)
	}
	return n.Text
}

// objectName matches names of Kubernetes' objects.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// longestImage bounds the name of an image, in bytes.
const longestImage = 500

// kubernetes reads where workers run as pods; nil if the file has no such part.
func (r *reader) kubernetes(n *document.Node) *Kubernetes {
	if !fits(n, document.Object) {
		return nil
	}
	const path = "builder.provisioner.kubernetes."
	k := &Kubernetes{Kubeconfig: r.location(n.Get("kubeconfig"), "file:"), Context: n.Str("context"), ServiceAccount: "waybill-worker"}
	for _, name := range []struct {
		key  string
		into *string
	}{{"namespace", &k.Namespace}, {"serviceAccount", &k.ServiceAccount}} {
		if v := n.Get(name.key); fits(v, document.Text) {
			if *name.into = v.Text; !objectName.MatchString(v.Text) {
				r.Add(v, "value-invalid", path+name.key, "want a name of Kubernetes, of lower-case letters, digits, hyphens and dots, found %q", v.Text)
			}
		}
	}
	if v := n.Get("accounts"); fits(v, document.Texts) {
		k.Accounts = n.Strs("accounts")
		if i := slices.IndexFunc(k.Accounts, func(name string) bool {
			return !objectName.MatchString(name) ||
				name == k.ServiceAccount
		}); i >= 0 || len(k.Accounts) > mostAccounts {
			r.Add(v, "value-invalid", path+"accounts", "want at most %d names of service accounts, other than that of the workers", mostAccounts)
		}
	}
	if v := n.Get("image"); fits(v, document.Text) {
		if k.Image = v.Text; v.Text == "" || len(v.Text) > longestImage || strings.ContainsAny(v.Text, " \t\n$") {
			r.Add(v, "value-invalid", path+"image", "want the name of an image such as registry.example.org/waybill:1, found %q", v.Text)
		}
	}
	if v := n.Get("imagePullPolicy"); fits(v, document.Text) {
		if k.PullPolicy = v.Text; !slices.Contains([]string{"Always", "IfNotPresent", "Never"}, v.Text) {
			r.Add(v, "value-invalid", path+"imagePullPolicy", "want Always, IfNotPresent or Never, found %q", v.Text)
		}
	}
	return k
}

func (r *reader) largestSnapshot(n *document.Node, p *Provisioner) {
	if fits(n, document.Scalar) {
		p.Largest = r.size(n, "builder.provisioner.largestSnapshot")
	}
}

// localWorkers reads where local workers listen. A worker that listens everywhere needs a name by which it is
// reached.
func (r *reader) localWorkers(n *document.Node, p *Provisioner) {
	const path = "builder.provisioner.workers."
	listen, advertise := n.Get("listen"), n.Get("advertise")
	if fits(advertise, document.Text) {
		if p.Advertise = advertise.Text; !isHost(p.Advertise) {
			r.Add(advertise, "value-invalid", path+"advertise",
				"want a name or an address without a port, such as builds.example.org, found %q", p.Advertise)
		}
	}
	if !fits(listen, document.Text) {
		return
	}
	p.Host = listen.Text
	switch ip := net.ParseIP(p.Host); {
	case ip == nil:
		r.Add(listen, "value-invalid", path+"listen", "want an IP address without a port, such as 10.1.2.3, found %q", p.Host)
	case ip.IsUnspecified() && p.Advertise == "":
		r.Add(listen, "value-invalid", path+"listen",
			"%s is every address of this machine: name one that aggregators reach in %sadvertise", p.Host, path)
	}
}

// workerDocker reads how workers run in containers; nil: they do not.
func (r *reader) workerDocker(n *document.Node) *WorkerDocker {
	const path = "builder.provisioner.docker."
	if !fits(n, document.Object) {
		return nil
	}
	d := &WorkerDocker{}
	for _, text := range []struct {
		name string
		into *string
	}{{"image", &d.Image}, {"host", &d.Host}, {"network", &d.Network}} {
		if v := n.Get(text.name); fits(v, document.Text) {
			*text.into = v.Text
		}
	}
	if d.Image == "" {
		r.Add(n, "value-missing", path+"image", "name an image that has waybill and git on its path")
	}
	if scheme, rest, _ := strings.Cut(d.Host, "://"); d.Host != "" && (rest == "" || scheme != "unix" && scheme != "tcp") {
		r.Add(n.Get("host"), "value-invalid", path+"host", "want an address such as unix:///var/run/docker.sock, found %q", d.Host)
	}
	if v := n.Get("memory"); fits(v, document.Scalar) {
		d.Memory = r.size(v, path+"memory")
	}
	return d
}

// isHost reports whether a text may be the host of an address.
func isHost(text string) bool {
	u, err := url.Parse("http://" + net.JoinHostPort(text, "1") + "/")
	return err == nil && u.Hostname() == text && text != "" && (net.ParseIP(text) != nil || !strings.ContainsAny(text, ":%"))
}

// notDigest reports whether a text is anything but a SHA-256 in hex digits.
func notDigest(text string) bool {
	sum, err := hex.DecodeString(text)
	return err != nil || len(sum) != sha256.Size
}

// credentials reads names and files. A relative path counts from the file's folder.
func (r *reader) credentials(n *document.Node, p *Provisioner) {
	if !fits(n, document.ScalarMap) {
		return
	}
	p.Credentials = map[string]string{}
	for _, field := range n.Fields {
		path := field.Value.Text
		if path == "" {
			r.Add(field.Value, "value-invalid", "builder.provisioner.credentials."+field.Key, "want the path of a file")
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.folder, path)
		}
		p.Credentials[field.Key] = path
	}
}

// base reads an address that paths are appended to.
func (r *reader) base(n *document.Node, path string) string {
	u, err := url.Parse(n.Text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.Add(n, "value-invalid", path, "want an address such as http://127.0.0.1:5009, found %q", n.Text)
		return ""
	}
	return strings.TrimSuffix(n.Text, "/")
}
