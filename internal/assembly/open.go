package assembly

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
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// Session is an open log, of this machine or a shared one, or a server.
type Session struct {
	operation.Caller // performs operations on the log, or on the server
	Streams
	Processes
	place   Place
	Home    Home
	dir     string // folder of the project, existing or not
	Kind    Kind
	Ledger  *ledger.Ledger   // nil with --server
	metrics *obs.Ledger      // metrics of the log; nil with --server
	blobs   blob.Store       // nil with --server
	service *service.Service // on the log; nil with --server
	hosts   *step.Hosts      // nil with --server
	git     gitHosts
	Live    *config.Live   // the configuration in force; nil with --server
	source  []byte         // the configuration file as read at startup; nil if there was none
	serving string         // name of this process among the configuration's conductors
	URL     string         // address of the ledger or the server, for messages
	log     *slog.Logger   // what this process logs; nil: nothing
	API     *server.Server // once the role api was made

	// The fields below are those of a process that runs roles. The roles continue through reloads of the configuration.
	ledgerID string
	handlers atomic.Pointer[handlerSet] // built from the configuration in force
	// builds the set for a new configuration; nil: no role needs handlers
	rebuildHandlers func(context.Context, *config.Config) (commit func(), err error)
	serves          []func(conductor.Table) // take the new set
	// checkPromoter checks that the role promoter can start with a new configuration; nil: this process does not have it
	checkPromoter func(config.Promoter) error
}

// Kind describes the processes that can do the work of a log.
type Kind uint8

const (
	Embedded Kind = iota + 1 // the log in the home: the process that holds its lock
	shared                   // PostgreSQL: processes of `waybill serve`
	Remote                   // a server
)

// Mode is the purpose of a session.
type Mode uint8

const (
	Existing Mode = iota // work on the log that exists
	Create               // make the home and the log when they are missing
	Serve                // as Create, and serve others: their reads have connections of their own, and a time limit
)

// Open makes a session for a folder, by --server, --store, the configuration, or the home.
func (p Place) Open(ctx context.Context, dir string, m Mode) (*Session, error) {
	s, err := p.locate(dir)
	if err != nil || s.Kind == Remote {
		return s, err
	}
	if s.Kind == Embedded && m == Existing {
		if err := needLog(s.URL); err != nil {
			return nil, err
		}
	}
	if m != Existing {
		if err := p.CreateHome(s.Home); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ctx, m); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenScratch opens the log of a folder, or an empty one that is deleted afterwards when the folder has no log.
func (p Place) OpenScratch(ctx context.Context, dir string) (*Session, func(), error) {
	h := p.HomeOf(dir)
	if p.Flags.Server != "" || h.exists() || p.storedElsewhere(h) {
		s, err := p.Open(ctx, dir, Existing)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	cfg, _, err := p.Config(h)
	if err != nil {
		return nil, nil, err
	}
	cfg.Blob = config.Default().Blob
	folder, err := os.MkdirTemp("", "waybill-plan-")
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "make a temporary folder: %w", err)
	}
	s := &Session{place: p, Home: Home{Dir: folder}, Kind: Embedded, URL: Home{Dir: folder}.database(), Live: config.NewLive(cfg)}
	if err := s.connect(ctx, Create); err != nil {
		_ = os.RemoveAll(folder)
		return nil, nil, err
	}
	s.Home = h
	return s, func() { s.Close(); _ = os.RemoveAll(folder) }, nil
}

// storedElsewhere reports whether the log is not the home's own file.
func (p Place) storedElsewhere(h Home) bool {
	cfg, _, err := p.Config(h)
	return err != nil || cfg.Ledger.URL != ""
}

// KindOf returns which processes can do the work of a folder's log. It opens and makes nothing.
func (p Place) KindOf(dir string) (Kind, error) {
	s, err := p.locate(dir)
	if err != nil {
		return 0, err
	}
	return s.Kind, nil
}

// locate finds the log of a folder, and opens nothing.
func (p Place) locate(dir string) (*Session, error) {
	h := p.HomeOf(dir)
	if address := p.Flags.Server; address != "" {
		c := p.Client(h, address)
		return &Session{Caller: c, Streams: c, Processes: c, place: p, Home: h, Kind: Remote, URL: address}, nil
	}
	cfg, source, err := p.Config(h)
	if err != nil {
		return nil, err
	}
	s := &Session{place: p, Home: h, dir: p.ProjectDir(dir), Live: config.NewLive(cfg), source: source,
		serving: config.DefaultConductor, Kind: Embedded, URL: h.database(), log: p.Log}
	switch {
	case isPostgres(cfg.Ledger.URL):
		s.Kind, s.URL = shared, cfg.Ledger.URL
	case cfg.Ledger.URL != "":
		s.URL = p.Path(strings.TrimPrefix(cfg.Ledger.URL, "sqlite:"))
	}
	return s, nil
}

// connect opens the ledger and the blobs, and makes the one Service of this process over them.
func (s *Session) connect(ctx context.Context, m Mode) error {
	s.metrics = obs.NewLedger()
	planner := &callback.Planner{Book: func() callback.Book { return s.Live.Now() }}
	l, err := s.openLedger(ctx, m, planner)
	if err != nil {
		return err
	}
	blobs := s.blobURL()
	store, err := blob.Open(ctx, blobs)
	if err != nil {
		return errors.Join(fault.New(fault.Unavailable, "open the blob store %s: %w", blobs, err), l.Close())
	}
	planner.Blobs, planner.Jobs = store, l
	if s.hosts, err = s.place.Hosts(s.Home, s.dir); err != nil {
		return errors.Join(err, l.Close())
	}
	options := service.Options{
		Offers: s.offers(), Retention: s.Live.Now().Ledger.Retention, LargestUpload: s.Live.Now().Server.LargestUpload,
		Projects: s.projects(), Proposals: s.proposals(), Flows: s.flows(), Inspect: s.hosts.Look, Verify: s.hosts.Verify, Current: s.hosts.Current, ReadLog: s.hosts.ReadLog,
	}
	if s.Kind == Embedded {
		options.Holder = s.Home.holder
	}
	reads := l
	if m == Serve {
		reads = l.ForReaders()
		options.Proofs = s.proofs()
	}
	options.Builds = &buildview.Tables{Rows: reads.Builds,
		Folders: buildview.NewFolders(s.Home.Builds(), buildview.OriginOf(reads)), Blobs: store, Waiter: s.buildWaiter}
	s.service = service.New(reads, store, options)
	local := server.NewLocal(s.service, s.place.User())
	s.Ledger, s.blobs, s.Caller, s.Streams, s.Processes = l, store, local, local, local
	return nil
}

// Verify checks a pipeline's whole log, with its archives, where it is.
func (s *Session) Verify(ctx context.Context, pipeline string) (deployer.Verification, error) {
	found, err := deployer.Verify(ctx, s.Ledger, s.blobs, pipeline)
	if err != nil {
		return found, err
	}
	check := sqlite.CheckShape
	if s.Kind == shared {
		check = postgres.CheckShape
	}
	shape := check(ctx, s.URL)
	if fault.Is(shape, fault.Corrupt) {
		found.Faults = append(found.Faults, shape.Error())
		shape = nil
	}
	return found, shape
}

// blobURL returns where this process keeps blobs.
func (s *Session) blobURL() string {
	if url := s.Live.Now().Blob.URL; url != "" {
		return url
	}
	return s.Home.blobs()
}

// PrivateBlobs returns where this process keeps blobs when that is its home although others may share the ledger; else "".
func (s *Session) PrivateBlobs() string {
	if s.Kind == shared && s.Live.Now().Blob.URL == "" {
		return s.blobURL()
	}
	return ""
}

func (s *Session) Close() {
	if s.hosts != nil {
		s.hosts.SSH.Close()
	}
	if s.Ledger != nil {
		_ = s.Ledger.Close() // what was committed stays, and the command has ended
	}
}

// Client returns a client of a server. It has WAYBILL_TOKEN, else the home's token when the server is the home's own:
// to another it would give every right over this home.
func (p Place) Client(h Home, address string) *client.Client {
	if token := p.Environment("WAYBILL_TOKEN"); token != "" {
		return client.New(address, token, p.User())
	}
	return client.NewHome(address, p.homeToken(h, address), p.User())
}

// homeToken returns the home's token if an address is that of the home's own server, else "".
func (p Place) homeToken(h Home, address string) string {
	if !p.isOwnServer(h, address) {
		return "" // what needs a token says so
	}
	content, err := file.Read(h.Token(), mostNote)
	if err != nil {
		return "" // reading needs none on this machine; a change reports the missing part
	}
	return strings.TrimSpace(string(content))
}

// isOwnServer reports whether an address is where the home's server listens: as it has noted in the home, or as the
// home's configuration sets.
func (p Place) isOwnServer(h Home, address string) bool {
	asked, err := url.Parse(address)
	if err != nil {
		return false
	}
	var known []string
	if noted, err := file.Read(h.address(), mostNote); err == nil {
		known = append(known, strings.TrimSpace(string(noted)))
	}
	if cfg, _, err := p.Config(h); err == nil {
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

// reaches reports whether a client that requests one host and port gets to a server that listens on the other one.
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

// IsIdle reports whether no process works on the log, as far as is known.
func (s *Session) IsIdle(ctx context.Context) bool {
	if s.Kind == Embedded && !s.Home.held() {
		return true
	}
	processes, err := operation.ListInstances.Call(ctx, s, operation.Nothing{})
	if err != nil {
		return false // the command's own prompt reports it
	}
	works := map[string]bool{}
	for _, p := range processes {
		for _, role := range p.Roles {
			works[role] = works[role] || p.State == "alive"
		}
	}
	return !works[RoleConductor] || !works[RoleDeployer]
}

// ServeAs makes this process one of the configuration's conductors; "" is the default one.
func (s *Session) ServeAs(name string) error {
	if name == "" {
		return nil
	}
	known := s.Live.Now().Conductors
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

// WithoutPassword returns a ledger's address as it may be printed.
func WithoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil && isPostgres(address) {
		if query := u.Query(); query.Has("password") { // the driver takes it there as well
			query.Set("password", "xxxxx")
			u.RawQuery = query.Encode()
		}
		return u.Redacted()
	}
	return address
}
