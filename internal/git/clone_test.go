package git_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/git"
)

// upstream makes a repository with two commits on main, the first one tagged.
func upstream(t *testing.T) (f folder, first, second string) {
	t.Helper()
	f = newFolder(t)
	f.git("commit", "-q", "--allow-empty", "-m", "one")
	f.git("tag", "-a", "v1", "-m", "first")
	first = f.ask("rev-parse", "HEAD")
	if err := os.WriteFile(filepath.Join(f.root, "a.txt"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.git("add", ".")
	f.git("commit", "-q", "-m", "two")
	return f, first, f.ask("rev-parse", "HEAD")
}

// ask returns git's answer.
func (f folder) ask(arguments ...string) string {
	f.t.Helper()
	c := exec.Command("git", arguments...)
	c.Dir = f.root
	out, err := c.Output()
	if err != nil {
		f.t.Fatalf("git %v: %v", arguments, err)
	}
	return strings.TrimSpace(string(out))
}

func TestACloneIsAtItsCommitWhateverTheBranchDoes(t *testing.T) {
	t.Parallel()
	origin, first, second := upstream(t)
	for _, allow := range []string{"true", "false"} {
		origin.git("config", "uploadpack.allowAnySHA1InWant", allow)
		origin.git("config", "uploadpack.allowReachableSHA1InWant", allow)
		origin.git("config", "uploadpack.allowTipSHA1InWant", allow)
		dir := filepath.Join(t.TempDir(), "clone")
		if err := (git.Clone{URL: "file://" + origin.root, Commit: first, Branch: "topic/a"}).Into(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		clone := folder{t: t, root: dir}
		if got := clone.ask("rev-parse", "HEAD"); got != first {
			t.Errorf("the clone is at %s, want %s and not %s", got, first, second)
		}
		head, err := git.Open(dir).Head(t.Context())
		if err != nil || head.Branch != "topic/a" || head.Tag != "v1" || head.Origin != "file://"+origin.root {
			t.Errorf("%+v, %v", head, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "a.txt")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file of the later commit: %v", err)
		}
	}
}

func TestACloneHasHistoryAndNoBranchUnlessNamed(t *testing.T) {
	t.Parallel()
	origin, first, second := upstream(t)
	dir := t.TempDir()
	if err := (git.Clone{URL: origin.root, Commit: second}).Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	clone := folder{t: t, root: dir}
	if got := clone.ask("log", "--format=%H"); got != second+"\n"+first {
		t.Errorf("history %s", got)
	}
	if head, err := git.Open(dir).Head(t.Context()); err != nil || head.Branch != "" || head.Tag != "" {
		t.Errorf("%+v, %v", head, err)
	}
}

func TestACommitThatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	origin, _, _ := upstream(t)
	err := git.Clone{URL: origin.root, Commit: strings.Repeat("a", 40)}.Into(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "fetch commit "+strings.Repeat("a", 40)+" of "+origin.root) {
		t.Error(err)
	}
}

func TestCloningRunsNothingOfTheRepository(t *testing.T) {
	t.Parallel()
	origin, _, _ := upstream(t)
	trap := filepath.Join(t.TempDir(), "trap")
	for name, text := range map[string]string{
		".gitattributes": "* filter=trap\n",
		".gitmodules":    "[submodule \"x\"]\n\tpath = x\n\turl = ext::touch " + trap + "\n",
		"a.txt":          "x",
	} {
		if err := os.WriteFile(filepath.Join(origin.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	origin.git("add", ".")
	origin.git("commit", "-q", "-m", "trap")
	if err := (git.Clone{URL: origin.root, Commit: origin.ask("rev-parse", "HEAD")}).Into(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := (git.Clone{URL: "ext::touch " + trap, Commit: strings.Repeat("a", 40)}).Into(t.Context(), t.TempDir()); err == nil {
		t.Error("a URL that is a command was accepted")
	}
	if _, err := os.Stat(trap); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program of the repository ran: %v", err)
	}
}

func TestACloneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	origin, first, _ := upstream(t)
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := (git.Clone{URL: origin.root, Commit: first}).Into(ctx, t.TempDir()); !errors.Is(err, late) {
		t.Error(err)
	}
}

func TestWhatGitWouldMisreadIsRefused(t *testing.T) {
	t.Parallel()
	good := git.Clone{URL: "https://example.org/shop.git", Commit: strings.Repeat("0a", 20), Branch: "main"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*git.Clone){
		"address of at most":  func(c *git.Clone) { c.URL = "--upload-pack=x" },
		"want one of https":   func(c *git.Clone) { c.URL = "ext::sh -c x" },
		"has a password":      func(c *git.Clone) { c.URL = "https://ana:secret@example.org/shop.git" },
		"want all 40":         func(c *git.Clone) { c.Commit = "main" },
		"the branch \"-x\"":   func(c *git.Clone) { c.Branch = "-x" },
		"the branch \"a..b":   func(c *git.Clone) { c.Branch = "a..b" },
		"the branch \"a.lock": func(c *git.Clone) { c.Branch = "a.lock" },
		"the branch \"a//b":   func(c *git.Clone) { c.Branch = "a//b" },
	} {
		c := good
		edit(&c)
		err := c.Check()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// protected serves a repository to ana with the password secret.
func protected(t *testing.T, origin folder) (address string) {
	t.Helper()
	path := filepath.Join(origin.ask("--exec-path"), "git-http-backend")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ana" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend := cgi.Handler{Path: path, Env: []string{"GIT_PROJECT_ROOT=" + origin.root, "GIT_HTTP_EXPORT_ALL=1"}}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCredentialsAreUsedForTheCloneAndStayOutOfIt(t *testing.T) {
	t.Parallel()
	origin, first, _ := upstream(t)
	address := protected(t, origin)
	clone := git.Clone{URL: address + "/.git", Commit: first}
	if err := clone.Into(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "fetch commit") {
		t.Fatalf("without credentials: %v", err)
	}
	file := filepath.Join(t.TempDir(), "it's secret")
	if err := os.WriteFile(file, []byte(strings.Replace(address, "http://", "http://ana:secret@", 1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clone.Credentials = file
	dir := t.TempDir()
	if err := clone.Into(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, ".git", "config"))
	if err != nil || strings.Contains(string(config), "secret") {
		t.Errorf("%s, %v", config, err)
	}
}
