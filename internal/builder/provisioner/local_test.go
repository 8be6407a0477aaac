package provisioner_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestAWorkerIsStartedReadAndRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t,
		"inputs: [{name: password, type: password}]\nbuild: {app: {container: {image: i, cmds: ['echo built ${GIT_COMMIT} "+
			"${GIT_BRANCH} ${GREETING} ${WHARF_INSTANCE} ${PROJECT_ID} ${password}']}}}")
	request, password := s.request(41), rand.Text() // no other test on this machine has it
	request.Variables, request.Inputs = map[string]string{"GREETING": "hello"}, map[string]string{"password": password}
	created := s.create(request)
	if !created.New || created.Worker.WorkerID != "local-41" {
		t.Fatalf("%+v", created)
	}
	worker := s.until("Running")
	if again := s.create(request); again.New || again.Worker.WorkerID != "local-41" {
		t.Errorf("again: %+v", again)
	}
	s.holdsNo(password)
	status, log := s.take(worker)
	if status != workerv1.Status_STATUS_COMPLETED || !strings.Contains(log, "built "+s.commit+" main hello shop 7 ***") {
		t.Errorf("%s:\n%s", status, log)
	}
	ended := s.until("Ended")
	if ended.Reason != "the build is Completed, and its results were taken" {
		t.Error(ended.Reason)
	}
	for range 2 {
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
	}
	s.until("")
	s.local.Tidy(time.Now())
	if left, _ := os.ReadDir(s.dir); len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left: %v", left)
	}
}

func TestTwoRequestsAtOnceStartOneWorker(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", at))
	created := make([]provisionerv1.Created, 4)
	var all sync.WaitGroup
	for i := range created {
		all.Go(func() { created[i], _ = s.client.Create(childtest.Context(t), s.request(41)) })
	}
	all.Wait()
	started := 0
	for _, c := range created {
		if c.New {
			started++
		}
		if c.Worker.WorkerID != "local-41" {
			t.Errorf("%+v", c)
		}
	}
	if started != 1 {
		t.Errorf("%d requests started a worker", started)
	}
}

// TestACreateWhoseAnswerIsLostHappensOnce: the next request finds the worker.
func TestACreateWhoseAnswerIsLostHappensOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	deaf := clientOf(s.client.URL)
	deaf.HTTP = &http.Client{Transport: lostAnswers{}}
	if _, err := deaf.Create(childtest.Context(t), s.request(41)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want that the provisioner is unavailable", err)
	}
	first := s.until("Running")
	if again := s.create(s.request(41)); again.New || again.Worker.StartedAt != first.StartedAt {
		t.Errorf("another worker was started: %+v after %+v", again, first)
	}
}

// lostAnswers is a network on which requests arrive and answers do not.
type lostAnswers struct{}

func (lostAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		err = errors.Join(errors.New("the connection was cut"), answer.Body.Close())
	}
	return nil, err
}

func TestABuildHasOneRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	other := s.request(41)
	other.Environment = "prod"
	if _, err := s.client.Create(t.Context(), other); !fault.Is(err, fault.Conflict) {
		t.Errorf("another request: %v", err)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.until("")
	if _, err := s.client.Create(t.Context(), s.request(41)); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestAProvisionerThatStartsAgainFindsItsWorkers(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", at))
	s.create(s.request(41))
	before := s.until("Running")
	if _, err := provisioner.OpenLocal(localConfig(s.dir, "")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("two provisioners on one folder: %v", err)
	}
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open()
	if now := s.until("Running"); now.Address != before.Address || !now.StartedAt.Equal(before.StartedAt) {
		t.Errorf("%+v, was %+v", now, before)
	}
	if again := s.create(s.request(41)); again.New {
		t.Errorf("a second worker was started: %+v", again)
	}
	if err := os.WriteFile(at, []byte("go\n"), 0o600); err != nil { // waits for the step
		t.Fatal(err)
	}
	if status, _ := s.take(before); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
}

func TestAWorkerThatWasNeverGivenItsWorkIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	digest, err := s.request(41).Digest()
	if err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "digest": %q, "process": {"pid": 1, "start": "long ago"}}`, digest)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700),
		os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	if created := s.create(s.request(41)); !created.New {
		t.Errorf("%+v", created)
	}
	if status, _ := s.take(s.until("Running")); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
}

func TestCredentialsAreNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	request := s.request(41)
	request.Repository.Credential = "github"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), `credentials "github" not found`) {
		t.Error(err)
	}
	request.Repository.Credential, request.Repository.URL = "", "ext::sh -c x"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestACommitThatIsMissingIsABuildThatFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	request := s.request(41)
	request.Repository.Commit = strings.Repeat("a", 40)
	s.create(request)
	status, log := s.take(s.until("Running"))
	if status != workerv1.Status_STATUS_FAILED || !strings.Contains(log, "fetch commit "+request.Repository.Commit) {
		t.Errorf("%s:\n%s", status, log)
	}
}

func TestASnapshotIsBuilt(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	pack := childtest.Command(t, "sh", "-c",
		`mkdir -p "$1" && cd "$1" && printf 'build: {app: {container: {image: i, cmds: [cat a.txt]}}}' > .wharf-ci.yml && echo from the snapshot > a.txt`, "sh", filepath.Join(t.TempDir(), "shop"))
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	blobs, key := packed(t, pack.Args[len(pack.Args)-1])
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(func(c *provisioner.LocalConfig) { c.Blobs = blobs })
	request := s.request(41)
	request.Repository, request.Snapshot = nil, key
	s.create(request)
	if status, log := s.take(s.until("Running")); status != workerv1.Status_STATUS_COMPLETED || !strings.Contains(log, "from the snapshot") {
		t.Errorf("%s:\n%s", status, log)
	}
	request.BuildID, request.Snapshot = 42, "sha256/missing"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.NotFound) {
		t.Errorf("a snapshot that is missing: %v", err)
	}
}

// TestABundleThatIsMissingStartsNoWorker, and one that cannot be read is reported by the worker, which runs every
// step.
func TestABundleThatIsMissingStartsNoWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: [echo it ran]}}}")
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	blobs, key := stored(t, "build/41/earlier/", someBytes(1000))
	s.open(func(c *provisioner.LocalConfig) { c.Blobs = blobs })
	request := s.request(41)
	request.Earlier = &provisionerv1.Earlier{BuildID: 40, Bundle: "build/41/earlier/gone"}
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.NotFound) {
		t.Errorf("a bundle that is missing: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*41*")); err != nil || len(left) > 0 {
		t.Errorf("a refused request left %q, %v", left, err)
	}
	request.Earlier.Bundle = key
	s.create(request)
	if status, log := s.take(s.until("Running")); status != workerv1.Status_STATUS_COMPLETED || !strings.Contains(log, "it ran") ||
		!strings.Contains(log, "build/app runs again: the results of the earlier build cannot be used") {
		t.Errorf("%s:\n%s", status, log)
	}
}

// TestKillingTheProvisionerLosesNoWorkerAndStartsNoSecond kills provisioners while they start workers.
func TestKillingTheProvisionerLosesNoWorkerAndStartsNoSecond(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo ${BUILD_REF} >> %s']}}}", count))
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	const rounds = 6
	for round := range rounds {
		alone := childtest.Command(t, os.Args[0])
		alone.Env = append(os.Environ(), folderVariable+"="+s.dir)
		out, err := alone.StdoutPipe()
		if err == nil {
			err = alone.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for id := range int64(3) {
				_, _ = clientOf(strings.TrimSpace(address)).Create(t.Context(), s.request(id+1)) // it may be killed
			}
		}()
		waitForFolder(t, asked, s.dir, round)
		_ = alone.Process.Kill()
		_ = alone.Wait() // killed
		<-asked
	}
	s.open()
	for id := range int64(3) {
		s.create(s.request(id + 1))
	}
	for _, w := range s.list().Workers {
		s.take(s.running(w.BuildID))
	}
	text, err := os.ReadFile(count)
	if lines := strings.Fields(string(text)); err != nil || len(lines) != 3 {
		t.Errorf("builds ran %q, %v", lines, err)
	}
}

func TestWorkersListenWhereTheyAreReached(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(func(c *provisioner.LocalConfig) { c.Host, c.Advertise = "0.0.0.0", "localhost" })
	s.create(s.request(41))
	worker := s.until("Running")
	if !strings.HasPrefix(worker.Address, "http://localhost:") {
		t.Error(worker.Address)
	}
	served, err := os.ReadFile(filepath.Join(s.dir, "41", "results", "worker.json"))
	if err != nil || !strings.Contains(string(served), "[::]:") && !strings.Contains(string(served), "0.0.0.0:") {
		t.Errorf("it serves %s, %v", served, err)
	}
	if status, _ := s.take(worker); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
}
