package assembly

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/operation"
)

// placeIn returns the place of a command line in a folder, with some variables of the environment.
func placeIn(dir string, environment map[string]string) Place {
	lookup := func(name string) string {
		if value, ok := environment[name]; ok || name != "XDG_STATE_HOME" {
			return value
		}
		return filepath.Join(dir, ".state")
	}
	return Place{Dir: dir, Environment: lookup, Version: "1.2.3"}
}

// settings writes the server.yaml of the home that is found in a folder, which the user accepts.
func settings(t *testing.T, p Place, text string) {
	t.Helper()
	h := p.HomeOf(p.Dir)
	write(t, h.file(configFile), text)
	if err := p.Accept(h); err != nil {
		t.Fatal(err)
	}
}

// write makes a file with its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFault(t *testing.T, err error, code fault.Code, text string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %v (%s), want %s: …%s…", err, fault.CodeOf(err), code, text)
	}
}

func TestHomeIsNamedOrBesideTheProject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	below := filepath.Join(dir, "some", "folder")
	write(t, filepath.Join(dir, ProjectFile), "")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for name, c := range map[string]struct {
		place Place
		dir   string
		want  Home
	}{
		"beside the project": {placeIn(below, nil), below, Home{filepath.Join(dir, HomeName), true}},
		"without a project":  {placeIn(outside, nil), outside, Home{filepath.Join(outside, HomeName), true}},
		"WAYBILL_HOME":       {placeIn(below, map[string]string{"WAYBILL_HOME": "own"}), below, Home{Dir: filepath.Join(below, "own")}},
	} {
		if got := c.place.HomeOf(c.dir); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	named := placeIn(below, map[string]string{"WAYBILL_HOME": "own"})
	named.Flags.Home = "/srv/waybill"
	if got := named.HomeOf(below); got.Dir != "/srv/waybill" || got.found {
		t.Errorf("--home: got %+v", got)
	}
	if got := named.ProjectDir(below); got != dir {
		t.Errorf("project in %s", got)
	}
	if got := named.ProjectDir(outside); got != outside {
		t.Errorf("without a project: %s", got)
	}
}

func TestPathsAreShownFromTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	p := placeIn("/srv/shop", nil)
	for path, want := range map[string]string{"/srv/shop/waybill.yaml": "waybill.yaml",
		"/srv/waybill.yaml": "../waybill.yaml", "/a": "/a", "own.yaml": "own.yaml"} {
		if got := p.Shorten(path); got != want {
			t.Errorf("%s is shown as %s, want %s", path, got, want)
		}
	}
	for name, want := range map[string]string{"a/../b": "/srv/shop/b", "/x/./y": "/x/y"} {
		if got := p.Path(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestUserIsThatOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for want, environment := range map[string]map[string]string{"ana": {"USER": "ana", "LOGNAME": "bo"}, "bo": {"LOGNAME": "bo"}} {
		if got := placeIn("/", environment).User(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if placeIn("/", nil).User() == "" {
		t.Error("a user without a name")
	}
}

func TestConfigurationIsReadAndOverridden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	cfg, source, err := p.Config(p.HomeOf(dir))
	if err != nil || source != nil || cfg.Ledger.URL != "" {
		t.Errorf("without a file: %q, %v", source, err)
	}
	settings(t, p, "ledger: {url: postgres://db/waybill}\n")
	if cfg, source, err = p.Config(p.HomeOf(dir)); err != nil || cfg.Ledger.URL != "postgres://db/waybill" || len(source) == 0 {
		t.Errorf("the home's file: %+v, %v", cfg.Ledger, err)
	}
	p.Flags.Store = "postgres://other/waybill"
	if cfg, _, err = p.Config(p.HomeOf(dir)); err != nil || cfg.Ledger.URL != "postgres://other/waybill" {
		t.Errorf("--store: %+v, %v", cfg.Ledger, err)
	}
	p.Flags.Store = "mysql://db/waybill"
	_, _, err = p.Config(p.HomeOf(dir))
	wantFault(t, err, fault.Invalid, `the store "mysql://db/waybill" is not known`)
	p.Flags.Store = ""
	for text, want := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "never": 0, "": 90 * 24 * time.Hour} {
		p.Flags.LogRetention = text
		cfg, _, err = p.Config(p.HomeOf(dir))
		if err != nil || cfg.Ledger.LogRetention != want {
			t.Errorf("--log-retention %s: %+v, %v", text, cfg.Ledger, err)
		}
	}
	p.Flags.LogRetention = "1h"
	_, _, err = p.Config(p.HomeOf(dir))
	wantFault(t, err, fault.Invalid, "--log-retention 1h: want at least 1d, such as 90d, or never")
	p.Flags.LogRetention = ""
	for name, p := range map[string]Place{"WAYBILL_CONFIG": placeIn(dir, map[string]string{"WAYBILL_CONFIG": "none.yaml"})} {
		_, _, err := p.Config(p.HomeOf(dir))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "read the configuration none.yaml") {
			t.Errorf("%s names a file that does not exist: %v", name, err)
		}
	}
	write(t, filepath.Join(dir, "bad.yaml"), "servr: {}\n")
	p.Flags.Config = "bad.yaml"
	if _, _, err := p.Config(p.HomeOf(dir)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a file with faults: %v", err)
	}
}

// TestBuildsReadTheToolsOfTheirServer: a build is a process of its own, which would read the user's configuration.
func TestBuildsReadTheToolsOfTheirServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, HomeName, "server.yaml")
	for text, want := range map[string][]string{"builder: {tools: {kubectl: k}}": {"--config", path}, "builder: {instance: x}": {}} {
		settings(t, placeIn(dir, nil), text)
		s, err := placeIn(dir, nil).locate(dir)
		if err != nil {
			t.Fatal(err)
		}
		program, err := s.program()
		if err != nil || len(program) == 0 || !slices.Equal(program[1:], want) {
			t.Errorf("%s: %q, %v, want %q behind this program", text, program, err, want)
		}
	}
}

func TestOpenOfALogThatDoesNotExist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	_, err := p.Open(t.Context(), dir, Existing)
	wantFault(t, err, fault.Unavailable, "nothing has been shipped here yet")
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("a command that reads has made %v", entries)
	}
}

func TestOpenCreatesTheHome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	for _, mode := range []Mode{Create, Existing, Serve} {
		s, err := p.Open(t.Context(), dir, mode)
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind != Embedded || s.Ledger == nil || s.URL != filepath.Join(dir, HomeName, "waybill.db") || s.PrivateBlobs() != "" {
			t.Errorf("session %+v", s)
		}
		if found, err := operation.ListPipelines.Call(t.Context(), s, operation.Nothing{}); err != nil || len(found) != 0 {
			t.Errorf("pipelines %v, %v", found, err)
		}
		if !s.IsIdle(t.Context()) {
			t.Error("no process works on a new log")
		}
		s.Close()
	}
	ignore, err := os.ReadFile(filepath.Join(dir, HomeName, ".gitignore"))
	if err != nil || string(ignore) != homeIgnore {
		t.Errorf("ignores %q, %v", ignore, err)
	}
	if info, err := os.Stat(filepath.Join(dir, HomeName)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestNothingIsArchivedWhereOthersDoNotFindIt: entries leave a shared log only for a blob store that was named.
func TestNothingIsArchivedWhereOthersDoNotFindIt(t *testing.T) {
	t.Parallel()
	for configuration, want := range map[string]bool{
		"": true,
		"ledger: {url: 'postgres://db/waybill'}\n":                                         false,
		"ledger: {url: 'postgres://db/waybill'}\nblob: {url: 'file:/mnt/waybill/blobs'}\n": true,
	} {
		dir := t.TempDir()
		settings(t, placeIn(dir, nil), configuration)
		s, err := placeIn(dir, nil).locate(dir)
		if err != nil {
			t.Fatal(err)
		}
		if s.blobs, err = blob.OpenDir(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if got := s.archives(slog.New(slog.DiscardHandler)) != nil; got != want {
			t.Errorf("with %q: archives %t, want %t", configuration, got, want)
		}
	}
}

func TestOpenOfAServer(t *testing.T) {
	t.Parallel()
	p := placeIn(t.TempDir(), nil)
	p.Flags.Server = "http://127.0.0.1:1"
	s, err := p.Open(t.Context(), p.Dir, Existing)
	if err != nil || s.Kind != Remote || s.Ledger != nil || s.Caller == nil || s.URL != p.Flags.Server {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Close()
	if s.IsIdle(t.Context()) {
		t.Error("a server that does not answer is not known to be idle")
	}
}

func TestAStatusOfAHomeWithoutALockShowsNoProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	s, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	left := s.instance()
	left.ID = action.DerivedID(time.Now(), t.Name())
	if err := s.Ledger.Join(t.Context(), left); err != nil { // the row of a process that was killed
		t.Fatal(err)
	}
	instances, err := operation.ListInstances.Call(t.Context(), s, operation.Nothing{})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lifecycle.Lock(s.Home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	locked, err := operation.ListInstances.Call(t.Context(), s, operation.Nothing{})
	if err != nil || len(instances) != 0 || len(locked) != 1 {
		t.Errorf("without a lock %v, with one %v, %v", instances, locked, err)
	}
}

// TestAStatusShowsASilentHolder: a stopped process keeps its lock.
func TestAStatusShowsASilentHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := placeIn(dir, nil).Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lock, err := lifecycle.Lock(s.Home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	holder := s.instance()
	holder.ID = action.DerivedID(time.Now(), t.Name())
	if err := s.Ledger.Join(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	file, heard := s.Home.file(lifecycle.LockFile), time.Now().Add(-time.Minute).Truncate(time.Second)
	write(t, file, `{"pid":42,"since":"2026-01-02T03:04:05Z","kept":true}`)
	for _, c := range []struct {
		heard time.Time
		state string
	}{{time.Now(), "alive"}, {heard, "dead"}} {
		if err := os.Chtimes(file, time.Time{}, c.heard); err != nil {
			t.Fatal(err)
		}
		v, err := operation.GetStatus.Call(t.Context(), s, operation.Nothing{})
		if err != nil || len(v.Processes) != 1 || v.Processes[0].State != c.state || v.KeepsUp != (c.state == "alive") {
			t.Fatalf("heard at %s: %+v, %v", c.heard, v, err)
		}
		if c.state == "dead" && (!v.Troubles[0].Since.Equal(heard) || !strings.Contains(v.Troubles[0].Hint, "kill -CONT 42 ")) {
			t.Errorf("%+v", v.Troubles[0])
		}
	}
	_, err = lifecycle.Lock(s.Home.Dir)
	wantFault(t, err, fault.Unavailable, "and has not been heard from since "+heard.Local().Format("15:04:05"))
}

func TestOpenScratchLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	s, done, err := p.OpenScratch(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	database := s.URL
	if _, err := os.Stat(database); err != nil || strings.HasPrefix(database, dir) || s.Home.Dir != filepath.Join(dir, HomeName) {
		t.Errorf("the log is %s of %s, %v", database, s.Home.Dir, err)
	}
	done()
	if _, err := os.Stat(filepath.Dir(database)); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", database, err)
	}
	real, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	real.Close()
	s, done, err = p.OpenScratch(t.Context(), dir)
	if err != nil || s.URL != filepath.Join(dir, HomeName, "waybill.db") {
		t.Fatalf("the log that exists is not used: %v", err)
	}
	done()
	if !s.Home.exists() {
		t.Error("the log that existed is gone")
	}
}

// A plan for a folder without a log knows the clusters and handlers of the home's server.yaml.
func TestOpenScratchHasTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	settings(t, p, "promoter: {clusters: {leaf: {context: admin}}}")
	s, done, err := p.OpenScratch(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if now := s.Live.Now().Promoter; now == nil || now.Clusters["leaf"].Context != "admin" {
		t.Errorf("the section promoter is %+v", now)
	}
}

func TestServeAs(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Conductors = map[string]config.Conductor{"default": {}, "fast": {}}
	s := &Session{Live: config.NewLive(cfg), serving: "default"}
	for name, want := range map[string]string{"": "default", "fast": "fast"} {
		s.serving = "default"
		if err := s.ServeAs(name); err != nil || s.serving != want {
			t.Errorf("%q: serves as %q, %v", name, s.serving, err)
		}
	}
	err := s.ServeAs("fats")
	wantFault(t, err, fault.Invalid, `server.yaml has no conductor "fats"`)
	if hint := fault.HintOf(err); hint != "--conductor fast" {
		t.Errorf("hint %q", hint)
	}
	if hint := fault.HintOf(s.ServeAs("zzzzzzzz")); !strings.Contains(hint, "conductors: {zzzzzzzz:") {
		t.Errorf("hint %q", hint)
	}
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, copied := placeIn(dir, nil), filepath.Join(dir, "copy.db")
	_, err := p.Backup(t.Context(), copied)
	wantFault(t, err, fault.Unavailable, "nothing has been shipped here yet")
	s, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Ledger.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	made, err := p.Backup(t.Context(), copied)
	if err != nil || made.File != copied || made.Bytes == 0 || made.Log != s.URL {
		t.Fatalf("%+v, %v", made, err)
	}
	lock, err := lifecycle.Lock(s.Home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Restore(t.Context(), copied); err == nil {
		t.Error("restored over a log that a process holds")
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	restored, err := p.Restore(t.Context(), copied)
	if err != nil || !strings.HasPrefix(restored.Kept, s.URL+".before-") {
		t.Fatalf("%+v, %v", restored, err)
	}
	again, err := p.Open(t.Context(), dir, Existing)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got, err := again.Ledger.ID(t.Context()); err != nil || got != id {
		t.Errorf("the restored log is %s, want %s, %v", got, id, err)
	}
}

func TestCopiesAreOfTheEmbeddedLog(t *testing.T) {
	t.Parallel()
	p := placeIn(t.TempDir(), nil)
	p.Flags.Server = "http://127.0.0.1:1"
	_, err := p.Backup(t.Context(), "x")
	wantFault(t, err, fault.Invalid, "backup works on a log, not through a server")
	p.Flags.Server, p.Flags.Store = "", "postgres://db/waybill"
	_, err = p.Restore(t.Context(), "x")
	wantFault(t, err, fault.Invalid, "a log on PostgreSQL is copied by PostgreSQL's own programs")
	if hint := fault.HintOf(err); !strings.HasPrefix(hint, "pg_restore ") {
		t.Errorf("hint %q", hint)
	}
}

func TestIdentityOfAHomeStays(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir()}
	first, err := h.identity(func(string) error { return nil })
	if err != nil || first == "" {
		t.Fatal(first, err)
	}
	if again, err := h.identity(func(string) error { return nil }); err != nil || again != first {
		t.Errorf("got %q, want %q, %v", again, first, err)
	}
	if other, err := (Home{Dir: t.TempDir()}).identity(func(string) error { return nil }); err != nil || other == first {
		t.Errorf("two homes are %q, %v", other, err)
	}
}

func TestRolesOfAProcessThatServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	settings(t, p, "builder: {provisioner: {listen: 127.0.0.1:0}}")
	for _, c := range []struct{ names, want []string }{
		{[]string{RoleAPI}, []string{"api", "observer", "presence", "config", "mirrors"}},
		{[]string{RoleConductor, RoleDeployer, RoleAPI}, []string{"conductor", "deployer", "api", "observer", "presence", "config", "mirrors", "schema"}},
		{[]string{RoleConductor, RoleCaboose}, []string{"conductor", "caboose", "config", "mirrors", "schema", "operations"}},
		{[]string{RoleCaboose}, []string{"caboose", "presence", "config", "schema", "operations"}},
		{[]string{RoleProvisioner}, []string{"provisioner", "presence", "config", "schema", "operations"}},
	} {
		s, err := p.Open(t.Context(), dir, Serve)
		if err != nil {
			t.Fatal(err)
		}
		roles, err := s.ServingRoles(t.Context(), RoleOptions{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, c.names...)
		var got []string
		for _, role := range roles {
			got = append(got, role.Name)
		}
		if err != nil || strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%v: roles %v, want %v, %v", c.names, got, c.want, err)
		}
		s.Close()
	}
	s, err := p.Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Roles(t.Context(), RoleOptions{}, "gardener")
	wantFault(t, err, fault.Internal, `role "gardener" not found`)
}

func TestWatchedIsWhatACabooseDependsOn(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Handlers = map[string]config.Handler{"flows": {Argo: &config.Argo{Namespace: "a"}},
		"resume": {Argo: &config.Argo{Resume: true}}, "cirrus": {Cirrus: &config.Cirrus{}}, "notify": {}}
	cfg.Caboose.Resync = time.Minute
	got := watched(&cfg)
	if len(got.clusters) != 1 || got.clusters["flows"].Namespace != "a" || len(got.cirrus) != 1 || got.caboose.Resync != time.Minute {
		t.Errorf("watched %+v", got)
	}
}

func TestPeopleAddActionsOfConfiguredHandlersAndNoop(t *testing.T) {
	t.Parallel()
	cfg, err := config.Read("server.yaml",
		[]byte("handlers:\n  notify:\n    type: webhook\n    parameters: {text: {type: string}}\n"+
			"    request: {url: \"https://hooks.example.org/\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{Live: config.NewLive(cfg)}
	handlers := s.orderable()
	if len(handlers) != 2 || handlers["noop"] == nil || handlers["notify"] == nil {
		t.Fatalf("handlers %v", handlers)
	}
	if a, err := handlers["notify"]([]byte(`{"text":"live"}`)); err != nil || a.Handler != "notify" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := handlers["noop"]([]byte(`{"sleep":"soon"}`)); err == nil {
		t.Error("noop takes a duration that is not one")
	}
}
