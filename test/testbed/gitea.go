package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// GitHost is a Gitea server with one administrator. It acts as the administrator, or as the user of As.
type GitHost struct {
	URL      string // http://127.0.0.1:PORT
	User     string
	Password string
	Token    string // an access token with every scope

	config  string // path of the server's configuration
	program string
	server  *service
}

// administrator is the name of the first user. Gitea reserves the name admin.
const administrator = "root"

// password is that of every user.
const password = "waybill-testbed"

// Gitea starts a Git host with pull requests for the test; about five seconds. Its web pages have no style, because that
// is built with Node.js.
func Gitea(t testing.TB) *GitHost {
	t.Helper()
	static, err := binary.Gitea().ModuleDir(t.Context(), binary.GiteaModule)
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	folder, address := t.TempDir(), addresses(t, 1)[0]
	h := &GitHost{URL: "http://" + address, User: administrator, Password: password,
		config: filepath.Join(folder, "app.ini"), program: program(t, binary.Gitea())}
	_, port := splitAddress(address)
	settings := strings.NewReplacer("{folder}", folder, "{url}", h.URL, "{port}", port, "{static}", static).Replace(giteaSettings)
	if err := os.WriteFile(h.config, []byte(settings), 0o600); err != nil {
		t.Fatalf("testbed: prepare Gitea: %v", err)
	}
	h.server = &service{
		name: "gitea", dir: folder,
		argv:  []string{h.program, "web", "--config", h.config},
		env:   []string{"GITEA_WORK_DIR=" + folder, "USER=" + os.Getenv("USER")},
		ready: answers(http.DefaultClient, h.URL+"/api/healthz"),
	}
	h.server.manage(t)
	h.Token = h.addAdministrator(t)
	return h
}

// addAdministrator makes the first user, which the API cannot, and returns its token.
func (h *GitHost) addAdministrator(t testing.TB) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), h.program, "--config", h.config, "admin", "user", "create", "--username", h.User,
		"--password", h.Password, "--email", h.User+"@example.com", "--admin", "--must-change-password=false", "--access-token")
	command.Env = append(os.Environ(), h.server.env...)
	command.Env = append(command.Env, "HOME="+h.server.dir)
	out, err := command.CombinedOutput()
	_, token, ok := strings.Cut(string(out), "Access token was successfully created... ")
	if err != nil || !ok {
		t.Fatalf("testbed: make Gitea's administrator: %v: %s", err, out)
	}
	return strings.TrimSpace(token)
}

// Kill kills the server without warning. Clients see refused connections until Start.
func (h *GitHost) Kill(t testing.TB) {
	t.Helper()
	h.server.kill(t)
}

// Start starts the server again after Kill, at the same address with the same data.
func (h *GitHost) Start(t testing.TB) {
	t.Helper()
	h.server.start(t)
}

// As makes a user, unless it exists, and returns the host as it is for that user.
func (h *GitHost) As(t testing.TB, user string) *GitHost {
	t.Helper()
	err := h.API(t.Context(), http.MethodPost, "/admin/users", map[string]any{
		"username": user, "email": user + "@example.com", "password": password, "must_change_password": false,
	}, nil)
	if refused, ok := errors.AsType[*APIError](err); err != nil && (!ok || refused.Status != http.StatusUnprocessableEntity) {
		t.Fatalf("testbed: make user %s: %v", user, err)
	}
	theirs := *h
	theirs.User, theirs.Token = user, ""
	var token struct {
		Value string `json:"sha1"`
	}
	name := fmt.Sprintf("testbed-%s", filepath.Base(t.TempDir()))
	err = theirs.API(t.Context(), http.MethodPost, "/users/"+user+"/tokens", map[string]any{"name": name, "scopes": []string{"all"}}, &token)
	if err != nil {
		t.Fatalf("testbed: make a token of user %s: %v", user, err)
	}
	theirs.Token = token.Value
	return &theirs
}

// APIError is an answer of a Git host that is not one of success.
type APIError struct {
	Request string
	Status  int
	Body    string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.Request, e.Status, e.Body)
}

// API calls the host's API. path follows /api/v1. body and answer are encoded as JSON; either may be nil. It
// returns an *APIError for every answer whose status is not below 300.
func (h *GitHost) API(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, h.URL+"/api/v1"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if h.Token != "" {
		request.Header.Set("Authorization", "token "+h.Token)
	} else {
		request.SetBasicAuth(h.User, h.Password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return &APIError{Request: method + " " + path, Status: response.StatusCode, Body: string(got)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(got, answer)
}

// mustAPI is API for calls of a test that must succeed.
func (h *GitHost) mustAPI(t testing.TB, method, path string, body, answer any) {
	t.Helper()
	if err := h.API(t.Context(), method, path, body, answer); err != nil {
		t.Fatalf("testbed: %v", err)
	}
}

// giteaSettings turn off parts that no test needs, and everything that would reach beyond this computer.
const giteaSettings = `
APP_NAME = Testbed
RUN_MODE = prod
WORK_PATH = {folder}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = {url}/
STATIC_ROOT_PATH = {static}
APP_DATA_PATH = {folder}/data
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[repository]
ROOT = {folder}/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = testbed
INTERNAL_TOKEN = eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJuYmYiOjE1MTYyMzkwMjJ9.9Gu1X4zC1cZRvWYKcFkVkMYQFy2BVKQlwXKzoLKAXjY
PASSWORD_HASH_ALGO = pbkdf2$1000$50
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[oauth2]
ENABLED = false
[actions]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[cron]
ENABLED = false
[mailer]
ENABLED = false
[picture]
DISABLE_GRAVATAR = true
[other]
ENABLE_FEED = false
[log]
LEVEL = Warn
ROOT_PATH = {folder}/log
`
