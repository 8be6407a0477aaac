package cli

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// session is a way to ask and to act: a log of this machine or a shared one, or a server.
type session struct {
	operations
	place   place
	home    home
	dir     string // of the project, or where it would be
	kind    sessionKind
	ledger  *ledger.Ledger // nil with --server
	blobs   blob.Store     // nil with --server
	live    *config.Live   // the configuration in force; nil with --server
	source  []byte         // of it, as the file was at the start; nil: there was none
	serving string         // which of the configuration's conductors this process is
	url     string         // of the ledger or the server, for messages
	log     *slog.Logger   // what this process logs; nil: nothing
	api     *server.Server // once the role api was made

	// Of a process that runs roles, which go on through reloads of the configuration.
	ledgerID        string
	handlers        atomic.Pointer[handlerSet]                                       // what they need of the configuration in force
	rebuildHandlers func(context.Context, *config.Config) (commit func(), err error) // makes another one; nil: no role needs any
	serves          []func(conductor.Table)                                          // who is told of it
}

// sessionKind says who can do the work.
type sessionKind uint8

const (
	embedded sessionKind = iota + 1 // the log in the home: whoever holds its lock
	shared                          // PostgreSQL: processes of `waybill serve`
	remote                          // a server
)

// mode says whether a command may make a log that is not there.
type mode uint8

const (
	existing mode = iota // read what is there
	create               // make the home and the log when they are missing
)

// open makes a session for a folder, by --server, --store, the configuration, or the home.
func (p place) open(ctx context.Context, dir string, m mode) (*session, error) {
	s, err := p.locate(dir)
	if err != nil || s.kind == remote {
		return s, err
	}
	if s.kind == embedded && m == existing {
		if err := needLog(s.url); err != nil {
			return nil, err
		}
	}
	if m == create {
		if err := s.home.create(); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// openScratch opens the log that is there; where there is none, an empty one that is thrown away afterwards.
func (p place) openScratch(ctx context.Context, dir string) (*session, func(), error) {
	h := p.homeOf(dir)
	if p.flags.server != "" || h.exists() || p.storedElsewhere(h) {
		s, err := p.open(ctx, dir, existing)
		if err != nil {
			return nil, nil, err
		}
		return s, s.close, nil
	}
	folder, err := os.MkdirTemp("", "waybill-plan-")
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "make a temporary folder: %w", err)
	}
	s := &session{place: p, home: home{dir: folder}, kind: embedded, url: home{dir: folder}.database(), live: config.NewLive(config.Default())}
	if err := s.connect(ctx); err != nil {
		_ = os.RemoveAll(folder)
		return nil, nil, err
	}
	s.home = h
	return s, func() { s.close(); _ = os.RemoveAll(folder) }, nil
}

// storedElsewhere reports whether the log is not the home's own file.
func (p place) storedElsewhere(h home) bool {
	cfg, _, err := p.config(h)
	return err != nil || cfg.Ledger.URL != ""
}

// locate finds out where the log of a folder is, and opens nothing.
func (p place) locate(dir string) (*session, error) {
	h := p.homeOf(dir)
	if address := p.flags.server; address != "" {
		client := server.NewClient(address, p.clientToken(h, address), p.user())
		return &session{operations: client, place: p, home: h, kind: remote, url: address}, nil
	}
	cfg, source, err := p.config(h)
	if err != nil {
		return nil, err
	}
	s := &session{place: p, home: h, dir: p.projectDir(dir), live: config.NewLive(cfg), source: source, serving: config.DefaultConductor, kind: embedded, url: h.database(), log: p.log}
	switch {
	case isPostgres(cfg.Ledger.URL):
		s.kind, s.url = shared, cfg.Ledger.URL
	case cfg.Ledger.URL != "":
		s.url = p.path(strings.TrimPrefix(cfg.Ledger.URL, "sqlite:"))
	}
	return s, nil
}

// connect opens the ledger and the blobs.
func (s *session) connect(ctx context.Context) error {
	l, err := s.openLedger(ctx)
	if err != nil {
		return err
	}
	blobs := s.blobURL()
	store, err := blob.Open(ctx, blobs)
	if err != nil {
		return errors.Join(fault.New(fault.Unavailable, "open the blob store %s: %w", blobs, err), l.Close())
	}
	l.Follows(callback.Planner{Book: func() callback.Book { return s.live.Now() }, Blobs: store, Jobs: l})
	service := server.NewService(l, store, s.offers())
	service.Retention = s.live.Now().Ledger.Retention
	service.LargestUpload = s.live.Now().Server.LargestUpload
	service.Inspect, service.Current, service.ReadLog = s.inspectHost, s.currentRelease, s.readServiceLog
	if s.kind == embedded {
		service.Idle = func() bool { return !s.home.held() }
	}
	l.PriorityStep(s.live.Now().PriorityStep)
	s.ledger, s.blobs, s.operations = l, store, service
	return nil
}

// inspectHost asks how a service on a host of this machine does.
func (s *session) inspectHost(ctx context.Context, host pipeline.Host, service string) (step.State, bool, error) {
	return step.Look(ctx, s.home.dir, host, service)
}

// currentRelease reads which release a host of this machine has switched to.
func (s *session) currentRelease(host pipeline.Host, service string) (string, bool, error) {
	return step.Current(s.home.dir, host, service)
}

// readServiceLog reads what a service on a host of this machine has printed.
func (s *session) readServiceLog(host pipeline.Host, service string, most int64) (step.ServiceLog, bool, error) {
	return step.ReadLog(s.home.dir, host, service, most)
}

// blobURL returns where this process keeps blobs.
func (s *session) blobURL() string {
	if url := s.live.Now().Blob.URL; url != "" {
		return url
	}
	return s.home.blobs()
}

// privateBlobs returns where this process keeps blobs when that is its home although others may share the ledger; else "".
func (s *session) privateBlobs() string {
	if s.kind == shared && s.live.Now().Blob.URL == "" {
		return s.blobURL()
	}
	return ""
}

func (s *session) close() {
	if s.ledger != nil {
		_ = s.ledger.Close() // what was committed stays; there is nobody left to tell
	}
}

// clientToken is WAYBILL_TOKEN, else the home's token when the server is the home's own: to another one it would give every
// right over this home.
func (p place) clientToken(h home, server string) string {
	if token := p.environment("WAYBILL_TOKEN"); token != "" {
		return token
	}
	if !p.isOwnServer(h, server) {
		return "" // what needs a token says so
	}
	content, err := os.ReadFile(h.token())
	if err != nil {
		return "" // reading needs none on this machine; a change says what is missing
	}
	return strings.TrimSpace(string(content))
}

// isOwnServer reports whether an address is where the home's server listens: as it has noted in the home, or as the home's
// configuration says.
func (p place) isOwnServer(h home, address string) bool {
	asked, err := url.Parse(address)
	if err != nil {
		return false
	}
	var known []string
	if noted, err := os.ReadFile(h.address()); err == nil {
		known = append(known, strings.TrimSpace(string(noted)))
	}
	if cfg, _, err := p.config(h); err == nil {
		known = append(known, "http://"+cfg.Server.Listen)
		if cfg.Server.URL != nil {
			known = append(known, cfg.Server.URL.String())
		}
	}
	return slices.ContainsFunc(known, func(text string) bool {
		own, err := url.Parse(text)
		return err == nil && asked.Scheme == own.Scheme && reaches(asked.Host, own.Host)
	})
}

// reaches reports whether a client that asks for one host and port gets to a server that listens on the other one.
func reaches(asked, listens string) bool {
	if asked == listens {
		return true
	}
	askedHost, askedPort, err := net.SplitHostPort(asked)
	host, port, listenErr := net.SplitHostPort(listens)
	if err != nil || listenErr != nil || askedPort != port {
		return false
	}
	every, here := net.ParseIP(host), net.ParseIP(askedHost)
	return (host == "" || every.IsUnspecified()) && here.IsLoopback()
}

// isIdle reports whether no process works on the log, as far as is known.
func (s *session) isIdle(ctx context.Context) bool {
	if s.kind == embedded && !s.home.held() {
		return true
	}
	processes, err := s.Instances(ctx)
	if err != nil {
		return false // whatever else is asked reports it
	}
	works := map[string]bool{}
	for _, p := range processes {
		for _, role := range p.Roles {
			works[role] = works[role] || p.State == "alive"
		}
	}
	return !works[roleConductor] || !works[roleDeployer]
}

// serveAs has this process be one of the configuration's conductors; "" is the default one.
func (s *session) serveAs(name string) error {
	if name == "" {
		return nil
	}
	known := s.live.Now().Conductors
	if _, ok := known[name]; !ok {
		wrong := fault.New(fault.Invalid, "server.yaml has no conductor %q", name)
		if near := fault.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			return wrong.WithHint("--conductor %s", near)
		}
		return wrong.WithHint("conductors: {%s: {handlers: [...]}}", name)
	}
	s.serving = name
	return nil
}

// withoutPassword is a ledger's address as it may be printed; that of a file is its path.
func withoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil && isPostgres(address) {
		if query := u.Query(); query.Has("password") { // the driver takes it there as well
			query.Set("password", "xxxxx")
			u.RawQuery = query.Encode()
		}
		return u.Redacted()
	}
	return address
}
