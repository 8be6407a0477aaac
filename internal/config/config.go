package config

import (
	"math"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// Config is server.yaml with its defaults filled in.
type Config struct {
	Ledger      Ledger
	Blob        Blob
	Server      Server
	Groups      map[string][]string  // people by the name of their group, by the names of their tokens
	Conductors  map[string]Conductor // what a process serves, by name; there is always a default
	TemplateEnv []string             // the environment names that env in templates may read; default none
	Defaults    action.Policy        // policy of every handler without a policy of its own
	Handlers    map[string]Handler   // by name
	Processes   map[string]Process   // the processes, by id
	Schedules   map[string]Schedule  // what is done again and again, by name
	Triggers    map[string]Trigger   // handlers and processes for events, by name
	Caboose     Caboose
	Flow        *Flow     // nil (default): this configuration has no cluster with EventFlows
	Broker      *Broker   // nil (default): this configuration has no service broker
	Promoter    *Promoter // nil (default): this configuration has no management cluster
	Builder     Builder
	Builds      Builds
}

// Ledger is the place of the log.
type Ledger struct {
	URL       string        // postgres://…, sqlite:FILE or a file; "" (default): waybill.db in the home
	ListenURL string        // a direct connection, when URL is a transaction pooler's; "" (default): URL
	Partition string        // day, week (default) or month; PostgreSQL only
	Retention time.Duration // how long actions are kept once they ended; default 90d; 0: forever
	// LogRetention is the time for which the logs, artifacts and test results of builds are kept in the database
	// after their end; default 90d; 0: forever.
	LogRetention time.Duration
	Heartbeat    time.Duration // time between heartbeats of an instance; its lease is three heartbeats; default 5s
}

// Blob is the place of snapshots and artifacts.
type Blob struct {
	URL string // file:DIR, a folder or s3://BUCKET/PREFIX?endpoint=URL&region=NAME; "" (default): blobs in the home
}

// Server configures the API's listener.
type Server struct {
	Listen string // host:port; default 127.0.0.1:7070; elsewhere than on loopback reading needs a token too
	// URL is the address of the API and the pages for clients when that is not the address it listens at, as behind a
	// proxy; then reading needs a token. It has a scheme and a host only. nil (default): where it listens.
	URL *url.URL
	// LargestUpload is the size in bytes above which a snapshot or an artifact is refused; 0
	// (default): 1 GiB.
	LargestUpload int64
}

// Caboose configures the care of workflows.
type Caboose struct {
	Workers int           // workflows at a time, of each handler; default 4
	Resync  time.Duration // time between looks at all workflows; default 10m
}

// Default returns the configuration without a file.
func Default() Config {
	return Config{
		Ledger:     Ledger{Partition: "week", Retention: 90 * 24 * time.Hour, LogRetention: 90 * 24 * time.Hour, Heartbeat: 5 * time.Second},
		Server:     Server{Listen: "127.0.0.1:7070"},
		Conductors: map[string]Conductor{DefaultConductor: standardConductor()},
		Defaults:   action.DefaultPolicy(),
		Caboose:    Caboose{Workers: 4, Resync: 10 * time.Minute},
		Builder:    standardBuilder(),
	}
}

// maxSize is the size in bytes above which a file is refused.
const maxSize = 1 << 20

// Read reads a server.yaml. file is its path: relative paths in it count from its folder, and
// positions name it. The error is every fault at once (fault.Problems).
func Read(file string, data []byte) (Config, error) {
	config, problems := Check(file, data)
	return config, problems.Err()
}

// Check works like Read and also returns warnings.
func Check(file string, data []byte) (Config, fault.Problems) {
	config := Default()
	if len(strings.TrimSpace(string(data))) == 0 {
		return config, nil // an empty file changes nothing
	}
	root, problems := yamltree.Parse(file, data, maxSize)
	if root == nil {
		return config, problems
	}
	root = document.WithoutShared(root)
	r := reader{Reader: document.Reader{Problems: problems, Unknown: inPath, AnyCase: true}, folder: filepath.Dir(file)}
	if r.Check(root, document.Place{At: root.At}, keys()) {
		r.fill(&config, root)
	}
	r.Problems.Sort()
	return config, r.Problems
}

// inPath adds to a fault the mapping in which an unknown key is.
func inPath(p fault.Problem, path, _ string) fault.Problem {
	if path != "" {
		p.Text += " in " + path
	}
	p.Scope = "" // the text has it
	return p
}

// reader takes values out of a checked document.
type reader struct {
	document.Reader
	folder string
}

func (r *reader) fill(c *Config, root *document.Node) {
	r.ledger(root.Get("ledger"), &c.Ledger)
	c.Blob.URL = r.location(root.Get("blob").Get("url"), "file:")
	if n := root.Get("server").Get("listen"); fits(n, document.Text) {
		c.Server.Listen = r.listen(n)
	}
	if n := root.Get("server").Get("url"); fits(n, document.Text) {
		c.Server.URL = r.origin(n)
	}
	if n := root.Get("server").Get("largestUpload"); fits(n, document.Scalar) {
		c.Server.LargestUpload = r.size(n, "server.largestUpload")
	}
	caboose := root.Get("caboose")
	if n := caboose.Get("workers"); fits(n, document.Number) {
		c.Caboose.Workers = r.workers(n, "caboose.workers")
	}
	if n := caboose.Get("resync"); fits(n, document.Scalar) {
		c.Caboose.Resync = r.span(n, "caboose.resync")
	}
	if n := root.Get("templateEnv"); fits(n, document.Texts) {
		c.TemplateEnv = root.Strs("templateEnv")
	}
	if n := root.Get("defaults"); fits(n, document.Object) {
		c.Defaults = r.policy(n, "defaults", c.Defaults)
	}
	if n := root.Get("promoter"); fits(n, document.Object) {
		c.Promoter = r.promoter(n)
	}
	if n := root.Get("flow"); fits(n, document.Object) {
		c.Flow = r.flow(n)
	}
	if n := root.Get("broker"); fits(n, document.Object) {
		c.Broker = r.broker(n)
	}
	r.builder(root.Get("builder"), &c.Builder)
	r.builds(root.Get("builds"), c)
	r.groups(root.Get("groups"), c)
	r.handlers(root.Get("handlers"), c)
	r.conductors(root.Get("conductors"), c)
	r.workflows(root, c)
	r.templates(root.Get("callbacks"))
	r.callbacks(root, c)
	r.schedules(root.Get("schedules"), c)
	r.triggers(root, c)
}

// fits reports whether there is a value of the shape; another has been reported by Check.
func fits(n *document.Node, shape document.Shape) bool { return n != nil && shape.Fits(n) }

// location makes a relative path absolute, counted from the file's folder; other URLs stay. The
// scheme is one that names a path.
func (r *reader) location(n *document.Node, scheme string) string {
	if !fits(n, document.Text) || n.Text == "" {
		return ""
	}
	if strings.Contains(n.Text, "://") {
		return n.Text
	}
	path, hasScheme := strings.CutPrefix(n.Text, scheme)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.folder, path)
	}
	if hasScheme {
		return scheme + path
	}
	return path
}

// size reads a number of bytes.
func (r *reader) size(n *document.Node, path string) int64 {
	size, err := humanize.ParseBytes(n.Text)
	if err != nil || size == 0 || size > math.MaxInt64/2 {
		r.Add(n, "value-invalid", path, "want a size such as 1GiB or 500MB, found %q", n.Text)
		return 0
	}
	return int64(size)
}

// origin reads an address that is a scheme and a host.
func (r *reader) origin(n *document.Node) *url.URL {
	u, err := url.Parse(n.Text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		r.Add(n, "value-invalid", "server.url", "want an address without a path such as https://waybill.example.org, found %q", n.Text)
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}
}

func (r *reader) listen(n *document.Node) string {
	_, port, err := net.SplitHostPort(n.Text)
	if number, portErr := strconv.Atoi(port); err != nil || portErr != nil || number < 0 || number > 65535 {
		r.Add(n, "value-invalid", "server.listen", "want host:port such as 127.0.0.1:7070, found %q", n.Text)
	}
	return n.Text
}

func (r *reader) workers(n *document.Node, path string) int {
	workers, err := strconv.Atoi(n.Text)
	if err != nil || workers < 1 || workers > 10_000 {
		r.Add(n, "value-invalid", path, "want a whole number from 1 to 10000, found %s", n.Text)
	}
	return workers
}
