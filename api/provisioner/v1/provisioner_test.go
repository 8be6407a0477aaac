package provisionerv1_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/fault"
)

func sound() provisionerv1.CreateWorker {
	return provisionerv1.CreateWorker{BuildID: 41, Project: "shop / web", Instance: "shop",
		Nonce: strings.Repeat("n", 20), File: "ci/.wharf-ci.yml",
		Inputs: map[string]string{"log-level": "debug"},
		Repository: &provisionerv1.Repository{URL: "https://example.org/shop.git", Commit: strings.Repeat("a", 40),
			Subdirectory: "web", Credential: "github"}}
}

func TestEveryFieldHasABound(t *testing.T) {
	t.Parallel()
	if err := sound().Check(); err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range 501 {
		many[fmt.Sprint("v", i)] = "x"
	}
	for want, edit := range map[string]func(*provisionerv1.CreateWorker){
		"buildId: want a number above zero":      func(c *provisionerv1.CreateWorker) { c.BuildID = -1 },
		"project: want at most 100 bytes":        func(c *provisionerv1.CreateWorker) { c.Project = "a\x1b[2J" },
		"project: want a name, not a path":       func(c *provisionerv1.CreateWorker) { c.Project = "../../x" },
		"projectId: want at most 100 digits":     func(c *provisionerv1.CreateWorker) { c.ProjectID = "4-secretname-x" },
		"instance: want at most 100 letters":     func(c *provisionerv1.CreateWorker) { c.Instance = "../shop" },
		"nonce: want 16 to 100":                  func(c *provisionerv1.CreateWorker) { c.Nonce = "short" },
		"repository: want either":                func(c *provisionerv1.CreateWorker) { c.Snapshot = "sha256/x" },
		"file: want a path inside the workspace": func(c *provisionerv1.CreateWorker) { c.File = "../.wharf-ci.yml" },
		"environment: want at most 4096 bytes":   func(c *provisionerv1.CreateWorker) { c.Environment = strings.Repeat("x", 5000) },
		"repository.subdirectory: want a path":   func(c *provisionerv1.CreateWorker) { c.Repository.Subdirectory = "a/../../b" },
		"repository.credential: want the name":   func(c *provisionerv1.CreateWorker) { c.Repository.Credential = "../key" },
		"stages: want at most 500":               func(c *provisionerv1.CreateWorker) { c.Stages = make([]string, 501) },
		"stages[0]: want at most 4096 bytes":     func(c *provisionerv1.CreateWorker) { c.Stages = []string{"a\n"} },
		"inputs: want names of 1 to 100 bytes":   func(c *provisionerv1.CreateWorker) { c.Inputs = map[string]string{"a=b": "x"} },
		"inputs: want values of at most": func(c *provisionerv1.CreateWorker) {
			c.Inputs = map[string]string{"a": strings.Repeat("x", 300<<10)}
		},
		"variables: want at most 500":              func(c *provisionerv1.CreateWorker) { c.Variables = many },
		"variables: want values of at most 262144": func(c *provisionerv1.CreateWorker) { c.Variables = map[string]string{"a": "x\x00"} },
		"earlier: want it with a repository": func(c *provisionerv1.CreateWorker) {
			c.Repository, c.Snapshot, c.Earlier = nil, "sha256/x", &provisionerv1.Earlier{BuildID: 40, Bundle: "x"}
		},
		"earlier.buildId: want the number of": func(c *provisionerv1.CreateWorker) {
			c.Earlier = &provisionerv1.Earlier{BuildID: 41, Bundle: "x"}
		},
		"earlier.bundle: want a key": func(c *provisionerv1.CreateWorker) { c.Earlier = &provisionerv1.Earlier{BuildID: 40} },
		"earlier.bundle: want at most 4096 bytes": func(c *provisionerv1.CreateWorker) {
			c.Earlier = &provisionerv1.Earlier{BuildID: 40, Bundle: "a\n"}
		},
		"revision: want at most 4096 bytes without": func(c *provisionerv1.CreateWorker) { c.Revision = "\x07" },
	} {
		c := sound()
		edit(&c)
		if err := c.Check(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "xxxx") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTheDigestIsOfAllThatIsAskedFor(t *testing.T) {
	t.Parallel()
	first, err := sound().Digest()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := sound().Digest(); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	for name, edit := range map[string]func(*provisionerv1.CreateWorker){
		"input":  func(c *provisionerv1.CreateWorker) { c.Inputs["log-level"] = "info" },
		"commit": func(c *provisionerv1.CreateWorker) { c.Repository.Commit = "b" },
		"nonce":  func(c *provisionerv1.CreateWorker) { c.Nonce = "b" },
		"stages": func(c *provisionerv1.CreateWorker) { c.Stages = []string{"a"} },
	} {
		c := sound()
		edit(&c)
		if other, _ := c.Digest(); other == first {
			t.Errorf("the digest does not depend on %s", name)
		}
	}
}

// TestAWorkerOfUnknownAgeIsNew since what is old and has not started is given up.
func TestAWorkerOfUnknownAgeIsNew(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	list := provisionerv1.WorkerList{Now: now}
	for want, w := range map[time.Duration]provisionerv1.Worker{0: {}, time.Minute: {CreatedAt: now.Add(-time.Minute)}} {
		if got := list.Age(w); got != want {
			t.Errorf("%+v: age %s, want %s", w, got, want)
		}
	}
}

// TestAPauseHasBounds whatever a provisioner answers.
func TestAPauseHasBounds(t *testing.T) {
	t.Parallel()
	after := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", provisionerv1.ProblemType)
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(provisionerv1.WaitingProblem(provisionerv1.Waiting{Running: 1, Limit: 1}))
	}))
	defer server.Close()
	client := &provisionerv1.Client{URL: server.URL, Token: func() (string, error) { return "token", nil }}
	for given, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0,
		"2000000000": 10 * time.Minute, "99999999999999999999": 0} {
		after = given
		made, err := client.Create(t.Context(), sound())
		if err != nil || made.Waiting == nil || made.Retry != want {
			t.Errorf("Retry-After %q: %+v, %v; want %s", given, made, err, want)
		}
	}
}
