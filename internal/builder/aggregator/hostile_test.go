package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/builds"
)

// hostile is a worker that answers what it likes, by the end of the path. Everything else is empty.
type hostile map[string]func(w io.Writer)

func (h hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/waybill.") {
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.WriteHeader(http.StatusOK)
	}
	for end, answer := range h {
		if strings.HasSuffix(r.URL.Path, end) {
			answer(w)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		_, _ = io.WriteString(w, "{}")
	}
}

// repeated answers with a text so many times between two others.
func repeated(before, text string, n int, after string) func(io.Writer) {
	return func(w io.Writer) { _, _ = io.WriteString(w, before+strings.Repeat(text+",", n-1)+text+after) }
}

// messages answers with messages of gRPC.
func messages[M proto.Message](t *testing.T, all ...M) func(io.Writer) {
	t.Helper()
	var out []byte
	for _, m := range all {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(binary.BigEndian.AppendUint32(append(out, 0), uint32(len(text))), text...)
	}
	return func(w io.Writer) { _, _ = w.Write(out) }
}

func events(all ...*workerv1.StatusEvent) *workerv1.StatusEventsResponse {
	return &workerv1.StatusEventsResponse{Events: all}
}

// memory is a store that takes everything.
type memory struct {
	batches      []builds.Batch
	acknowledged bool
}

func (m *memory) Progress(context.Context, builds.ID) (builds.Progress, error) {
	return builds.Progress{}, nil
}

func (m *memory) Ingest(_ context.Context, _ builds.ID, b builds.Batch) (builds.Ingested, error) {
	m.batches = append(m.batches, b)
	return builds.Ingested{}, nil
}

func (m *memory) Record(_ context.Context, _ builds.ID, e builds.Event) (builds.Event, error) {
	return e, nil
}

func (m *memory) Acknowledged(context.Context, builds.ID) error {
	m.acknowledged = true
	return nil
}

// copyOnce copies a worker's answers over one connection.
func copyOnce(t *testing.T, h hostile) (*memory, *blob.Dir, error) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	f := &follower{Aggregator: New(Config{Store: store, Blobs: blobs}),
		worker: Worker{Build: 7, ID: "w", Address: server.URL}, log: slog.New(slog.DiscardHandler)}
	_, err = f.once(t.Context())
	return store, blobs, err
}

// TestWhatNoWorkerSendsIsRefused before it takes much memory, or is taken for the end of the build.
func TestWhatNoWorkerSendsIsRefused(t *testing.T) {
	t.Parallel()
	ended := messages(t, events(&workerv1.StatusEvent{EventId: 1, StepId: 1, Status: workerv1.Status_STATUS_FAILED}))
	for name, c := range map[string]struct {
		worker hostile
		want   string
	}{
		"steps": {hostile{"/step": repeated(`{"steps":[`, "{}", mostItems+1, "]}")}, "a list has more than 50000 elements"},
		"needs": {hostile{"/step": repeated(`{"steps":[{"needs":[`, "1", mostItems+1, "]}]}")},
			"a list has more than 50000 elements"},
		"an unknown need": {hostile{"/step": repeated("", `{"steps":[{"stepId":1,"needs":[2]}]}`, 1, "")},
			"step 1 needs step 2, which the build does not have"},
		"no object":          {hostile{"/step": repeated("", "[]", 1, "")}, "want an object of JSON"},
		"no list":            {hostile{"/step": repeated("", `{"steps":{}}`, 1, "")}, "want a list of JSON"},
		"a list that is cut": {hostile{"/step": repeated("", `{"steps":[{}`, 1, "")}, "EOF"},
		"files": {hostile{"/StatusEvents": ended,
			"/test-result": repeated(`{"files":[`, "{}", mostItems+1, "]}")}, "a list has more than 50000 elements"},
		"tests of a file": {hostile{"/StatusEvents": ended,
			"/test-result": repeated(`{"files":[{"results":[`, "{}", mostItems+1, "]}]}")}, "a list has more than 50000 elements"},
		"tests of two files": {hostile{"/StatusEvents": ended,
			"/test-result": repeated(`{"files":[{"results":[{}]},{"results":[`, "{}", mostItems, "]}]}")}, "step 1 has more than 50000 tests"},
		"events": {hostile{"/StatusEvents": messages(t,
			events(make([]*workerv1.StatusEvent, mostListed+1)...))}, "sent 1001 events or artifacts at once"},
		"artifacts": {hostile{"/ArtifactEvents": messages(t,
			&workerv1.ArtifactEventsResponse{Artifacts: make([]*workerv1.Artifact, mostListed+1)})}, "sent 1001 events or artifacts at once"},
		"an artifact too far": {hostile{"/ArtifactEvents": messages(t,
			&workerv1.ArtifactEventsResponse{Artifacts: []*workerv1.Artifact{{Id: 2}}})}, "expected entry 0"},
		"the final marker of a step": {hostile{"/StatusEvents": messages(t,
			events(&workerv1.StatusEvent{EventId: 1, StepId: 1, Status: workerv1.Status_STATUS_FAILED, Final: &workerv1.Final{}}))},
			"event 1 has the final marker, and is not the end of the build"},
		"the final marker of what runs": {hostile{"/StatusEvents": messages(t,
			events(&workerv1.StatusEvent{EventId: 1, Status: workerv1.Status_STATUS_RUNNING, Final: &workerv1.Final{}}))},
			"event 1 has the final marker, and is not the end of the build"},
		"a final marker that is not stored": {hostile{"/StatusEvents": messages(t,
			events(&workerv1.StatusEvent{EventId: 1, Status: workerv1.Status_STATUS_FAILED, Final: &workerv1.Final{}}))},
			"the final marker of build 7 did not end it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _, err := copyOnce(t, c.worker)
			if err == nil || !strings.Contains(err.Error(), c.want) || store.acknowledged {
				t.Errorf("got %v, acknowledged %t; want %q", err, store.acknowledged, c.want)
			}
		})
	}
}

// TestListsOfOtherVersionsAreRead with keys that this program does not know, and without a list.
func TestListsOfOtherVersionsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`{"new":{"steps":[{}]},"steps":[{"stepId":1,"needs":null},{"stepId":2,"needs":[1]}],"steps2":[1]}`: 2, `{"steps":null}`: 0, "{}": 0} {
		store, _, err := copyOnce(t, hostile{"/step": repeated("", text, 1, "")})
		if err == nil || !strings.Contains(err.Error(), "without a final marker") || len(store.batches) == 0 ||
			len(store.batches[0].Steps) != want {
			t.Errorf("%s: %+v, %v", text, store.batches, err)
		}
	}
}

// TestEventsAreStoredAsTheyCome: they take memory as logs do.
func TestEventsAreStoredAsTheyCome(t *testing.T) {
	t.Parallel()
	var all []*workerv1.StatusEventsResponse
	text := strings.Repeat("x", 700_000)
	for id := range int64(30) {
		all = append(all, events(&workerv1.StatusEvent{EventId: id + 1, StepId: 1, Status: workerv1.Status_STATUS_RUNNING, Message: text}))
	}
	store, _, _ := copyOnce(t, hostile{"/StatusEvents": messages(t, all...)})
	count := 0
	for _, b := range store.batches {
		if n := len(b.Events); n > 2 {
			t.Errorf("%d events of %d bytes each are stored at once", n, len(text))
		}
		count += len(b.Events)
	}
	if count != len(all) {
		t.Errorf("%d events are stored, of %d", count, len(all))
	}
}

// TestAnArtifactThatCameIsNotReplaced by one that has its id and other bytes.
func TestAnArtifactThatCameIsNotReplaced(t *testing.T) {
	t.Parallel()
	artifact := func(text string) *workerv1.ArtifactEventsResponse {
		sum := sha256.Sum256([]byte(text))
		return &workerv1.ArtifactEventsResponse{Artifacts: []*workerv1.Artifact{{Id: 1, StepId: 1, Name: text,
			Size: int64(len(text)), Sha256: sum[:]}}}
	}
	texts := []string{"good", "evil"}
	_, blobs, err := copyOnce(t, hostile{"/ArtifactEvents": messages(t, artifact(texts[0]),
		artifact(texts[1])), "/download": func(w io.Writer) {
		_, _ = fmt.Fprint(w, texts[0])
		texts = texts[1:]
	}})
	if err == nil || !strings.Contains(err.Error(), "without a final marker") {
		t.Error(err)
	}
	content, _, err := blobs.Get(t.Context(), "build/7/1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || string(text) != "good" {
		t.Errorf("the artifact is %q, %v", text, err)
	}
}

// TestTestsOfAStepAreReadOnce: however often its worker ends it.
func TestTestsOfAStepAreReadOnce(t *testing.T) {
	t.Parallel()
	var all []*workerv1.StatusEvent
	for id := range int64(10) {
		all = append(all, &workerv1.StatusEvent{EventId: id + 1, StepId: int32(id%2 + 1), Status: workerv1.Status_STATUS_FAILED})
	}
	var asked atomic.Int32
	store, _, _ := copyOnce(t, hostile{"/StatusEvents": messages(t, events(all...)), "/test-result": func(w io.Writer) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"files":[{"artifactId":1,"name":"unit.xml","results":[{"name":"Total"}]}]}`)
	}})
	reports, count := 0, 0
	for _, b := range store.batches {
		reports, count = reports+len(b.Tests), count+len(b.Events)
	}
	if asked.Load() != 2 || reports != 2 || count != len(all) {
		t.Errorf("tests were read %d times, %d reports and %d events are stored", asked.Load(), reports, count)
	}
}
