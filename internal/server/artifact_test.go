package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// builtElsewhere is a pipeline whose artifacts come from outside.
const builtElsewhere = `pipeline: greeter
service: {manager: none}
test: [{run: [./test]}]
stages:
- {name: build, build: external, artifacts: {amd64: dist/greeter-amd64.tar.gz, arm64: "dist/*-arm64.tar.gz"}}
- name: beta
  hosts: [{url: "local://oak", arch: amd64}, {url: "local://elm", arch: arm64}]
`

const artifacts = "/api/v1/pipelines/greeter/revisions/v1/artifacts/"

// external serves a pipeline whose revision v1 waits for its artifacts.
func external(t *testing.T) *testServer {
	t.Helper()
	s := serve(t, "")
	s.Apply(t, builtElsewhere)
	if _, err := s.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "v1"}, true, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestArtifactsFromOutsideAreCheckedAndRepeatable(t *testing.T) {
	t.Parallel()
	s := external(t)
	s.Service.LargestUpload = 1000
	storeToken(t, s.Ledger, "ben", "the-token-of-ben-1", "read")
	for _, c := range []struct {
		name, path, body, token string
		status                  int
		answer                  string
	}{
		{"no right", "amd64", "a", "Bearer the-token-of-ben-1", 403, ""},
		{"not expected", "amd65", "a", bearer, 404, `"hint":"expected: amd64, arm64"`},
		{"too large", "amd64", strings.Repeat("x", 1001), bearer, 413, ""},
		{"another digest", "amd64?digest=" + digestOf("b"), "a", bearer, 400,
			"has arrived with SHA-256 " + digestOf("a") + ", not " + digestOf("b")},
		{"no digest", "amd64?digest=abc", "a", bearer, 400, "query.digest"},
		{"no file name", "amd64?name=..", "a", bearer, 400, "want the name of a file"},
		{"a path that leads elsewhere", "amd64?name=../../x", "a", bearer, 400, "want the name of a file"},
		{"a folder", "amd64?name=x/", "a", bearer, 400, "want the name of a file"},
		{"an archive that is not unpacked", "amd64?name=a.tar.xz", "a", bearer, 400, "archives of the kind .tar.xz are not unpacked"},
		{"a name of two lines", "amd64?name=a%0Ab", "a", bearer, 400, "want the name of a file"},
		{"first", "amd64?digest=" + digestOf("a"), "a", bearer, 200, `"name":"greeter-amd64.tar.gz"`},
		{"again", "amd64?digest=" + digestOf("a"), "a", bearer, 200, `"digest":"` + digestOf("a")},
		{"again without a digest", "amd64", "a", bearer, 200, `"digest":"` + digestOf("a")},
		{"other content", "amd64", "b", bearer, 409, "SHA-256 " + digestOf("a") + ", now " + digestOf("b")},
		{"another digest than is registered", "amd64?digest=" + digestOf("b"), "b", bearer, 409,
			"SHA-256 " + digestOf("a") + ", now " + digestOf("b")},
		{"the last one", "arm64?name=greeter.zip", "c", bearer, 200, `"name":"greeter.zip"`},
		{"again once sealed", "arm64", "c", bearer, 200, `"name":"greeter.zip"`},
	} {
		status, answer, _ := s.ask(t, "PUT", artifacts+c.path, c.body, "Authorization", c.token)
		if status != c.status || !strings.Contains(strings.ReplaceAll(answer, `": "`, `":"`), c.answer) {
			t.Errorf("%s: %d, want %d: %s", c.name, status, c.status, answer)
		}
	}
	r, err := s.Service.Revision(t.Context(), "greeter", "v1")
	if err != nil || r.State != "sealed" || len(r.Artifacts) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// unread fails a test that sends an upload although the server knows its digest.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the upload was read")
	return 0, errors.New("not to be read")
}

// TestWhatIsRegisteredIsNotSentAgain over HTTP: the client waits for the server to request the content.
func TestWhatIsRegisteredIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := external(t)
	c, a := s.client(), pipeline.RevisionArtifact{Label: "amd64", Name: "x.tar", Digest: digestOf("abc"), Size: 3}
	first, err := putArtifact(t.Context(), c, "greeter", "v1", a, strings.NewReader("abc"))
	if err != nil || first.Digest != a.Digest || first.Size != 3 || first.Blob == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := putArtifact(t.Context(), c, "greeter", "v1", a, unread{t})
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("again: %v\n%s", err, diff)
	}
	a.Digest = digestOf("xyz")
	if _, err := putArtifact(t.Context(), c, "greeter", "v1", a, unread{t}); !fault.Is(err, fault.Conflict) {
		t.Errorf("other content: %v", err)
	}
	if err := s.Blobs.Clear(t.Context(), "upload"); err != nil {
		t.Fatal(err)
	}
	a.Digest = first.Digest
	if _, err := putArtifact(t.Context(), c, "greeter", "v1", a, strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	if has, err := s.Blobs.Has(t.Context(), first.Blob); !has || err != nil {
		t.Errorf("what the blob store had lost is stored: %v, %v", has, err)
	}
}

// TestAnUploadThatIsCutShortRegistersNothing, and may be repeated.
func TestAnUploadThatIsCutShortRegistersNothing(t *testing.T) {
	t.Parallel()
	s := external(t)
	c, a := s.client(), pipeline.RevisionArtifact{Label: "amd64", Digest: digestOf("abc"), Size: 3}
	cut := io.MultiReader(strings.NewReader("ab"), unreadable{})
	if _, err := putArtifact(t.Context(), c, "greeter", "v1", a, cut); err == nil {
		t.Fatal("half of an artifact was taken")
	}
	if r, err := s.Service.Revision(t.Context(), "greeter", "v1"); err != nil || len(r.Artifacts) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := putArtifact(t.Context(), c, "greeter", "v1", a, strings.NewReader("abc")); err != nil {
		t.Error(err)
	}
}

type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

// TestAnArtifactOfAnOlderDefinitionIsStillExpected by a revision whose deployment was made under it.
func TestAnArtifactOfAnOlderDefinitionIsStillExpected(t *testing.T) {
	t.Parallel()
	s := external(t)
	s.Apply(t, strings.Replace(strings.Replace(builtElsewhere, `, arm64: "dist/*-arm64.tar.gz"`, "", 1),
		`, {url: "local://elm", arch: arm64}`, "", 1))
	if _, err := s.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "v2"}, true, ""); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]int{"v1": 200, "v2": 404} {
		status, answer, _ := s.ask(t, "PUT", "/api/v1/pipelines/greeter/revisions/"+label+"/artifacts/arm64", "a", "Authorization", bearer)
		if status != want {
			t.Errorf("%s: %d, want %d: %s", label, status, want, answer)
		}
	}
}

func TestNoArtifactIsExpectedWhereWaybillBuilds(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	if _, err := s.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "v1"}, false, ""); err != nil {
		t.Fatal(err)
	}
	status, answer, _ := s.ask(t, "PUT", artifacts+"any", "a", "Authorization", bearer)
	if status != 404 || !strings.Contains(answer, "build: external") {
		t.Errorf("%d: %s", status, answer)
	}
}

func TestARegistrationIsRepeatableWithTheSameContent(t *testing.T) {
	t.Parallel()
	s := external(t)
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"label": "v2", "commit": "3f2c9a1"}`, `"created":true`, 200},
		{`{"label": "v2", "commit": "3f2c9a1"}`, `"created":false`, 200},
		{`{"label": "v2"}`, `"created":false`, 200},
		{`{"label": "v2", "commit": "88d0e17"}`, "registered with commit 3f2c9a1, now 88d0e17", 409},
		{`{"label": "v1", "commit": "88d0e17"}`, "registered with commit none, now 88d0e17", 409},
		{`{"label": "v3", "commit": "x"}`, "at most 64 hex digits", 400},
		{`{"label": "a\nb"}`, "one line of text", 400},
		{`{"label": "v\u202e1"}`, "visible characters only", 400},
		{`{"label": "v\u200b1"}`, "visible characters only", 400},
		{`{"label": "v\u31641"}`, "visible characters only, not U+3164", 400},
		{`{"label": "v\ufe0f1"}`, "visible characters only", 400},
		{`{"label": "v1 "}`, "visible characters only", 400},
		{`{"label": "v4", "snapshot": "../../../etc/passwd"}`, "is not the key of an upload", 400},
		{`{"label": "v4", "snapshot": "action/2026w47/x/evidence"}`, "is not the key of an upload", 400},
		{`{"label": "v4", "snapshot": "upload/20990101T00/x"}`, "is not the key of an upload", 400},
		{`{"label": "` + strings.Repeat("é", 150) + `"}`, "has 300 bytes, at most 200", 400},
	} {
		status, answer, _ := s.ask(t, http.MethodPost, "/api/v1/pipelines/greeter/revisions", c.body, "Authorization",
			bearer, "Content-Type", "application/json")
		if status != c.status || !strings.Contains(strings.ReplaceAll(answer, `": `, `":`), c.want) {
			t.Errorf("%s: %d, want %d with %s: %s", c.body, status, c.status, c.want, answer)
		}
	}
	var all []service.DeploymentView
	if _, answer, _ := s.ask(t, http.MethodGet, "/api/v1/deployments?pipeline=greeter", "", "Authorization",
		bearer); json.Unmarshal([]byte(answer), &all) != nil || len(all) != 2 {
		t.Errorf("want a deployment of v1 and one of v2: %s", answer)
	}
}
