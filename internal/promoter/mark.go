package promoter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Times of reading marked values.
const (
	markLimit = 2 * time.Minute  // bounds one read
	markAgain = 10 * time.Minute // delay before a commit without a revision is read again
	markBusy  = time.Second      // delay after a mirror in use
	markers   = 2                // reads at a time
)

// marks reads the revisions at the markers of environments, in the commits that applications have applied. A look never waits for a
// read: the target is unknown until it ends, and the pipeline is put in line then.
type marks struct {
	*term
	queue *watch.Queue[string] // names of marks

	mu    sync.Mutex
	known map[string]*mark
}

// mark is the revision of one environment in one commit.
type mark struct {
	pipeline, namespace string
	of                  marker.Environment
	host                promotion.Host
	commit              string
	done                bool
	revision            string
	why                 string // why there is none
}

func newMarks(t *term) *marks {
	m := &marks{term: t, known: map[string]*mark{}}
	m.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: markers, Retry: loop.Backoff{First: 2 * time.Second, Most: time.Minute},
		Handle: m.next, Failed: m.failed})
	return m
}

// markName names a mark. It begins with the name of the pipeline and a slash.
func markName(pipeline string, env promotion.EnvName, commit string) string {
	return pollName(pipeline, env) + "@" + commit
}

// commitOf returns the commit in a revision of Flux, such as main@sha1:0a1b or main/0a1b.
func commitOf(revision string) (commit string, ok bool) {
	commit = revision[strings.LastIndexAny(revision, "@/:")+1:]
	return commit, (len(commit) == 40 || len(commit) == 64) && strings.Trim(commit, "0123456789abcdef") == ""
}

// fill sets the revisions at the markers in the applied and the attempted commit of an application. Without them it returns why the target
// is unknown. used collects the names of the marks that are needed.
func (l *look) fill(env promotion.EnvName, app *promotion.AppState, used map[string]bool) (promotion.Unseen, string) {
	return l.marks.fill(mark{pipeline: l.pipeline.ID(), namespace: l.pipeline.Namespace,
		of: marker.Environment{Namespace: l.pipeline.Namespace, Pipeline: l.pipeline.Name, Name: string(env)}},
		l.environment(env).Host, app, used)
}

// fill sets revisions as look.fill does, by a mark without its host and commit.
func (m *marks) fill(of mark, host *promotion.Host, app *promotion.AppState, used map[string]bool) (promotion.Unseen, string) {
	if host == nil || m.cfg.Mirrors == nil {
		return promotion.NoRevision, "the version source is markers, and no pull-request strategy names their repository"
	}
	for _, field := range []struct {
		revision string
		to       *string
	}{{app.Applied, &app.MarkerApplied}, {app.Attempted, &app.MarkerAttempted}} {
		if field.revision == "" {
			continue
		}
		commit, ok := commitOf(field.revision)
		if !ok {
			return promotion.NoRevision, fmt.Sprintf("the revision %.100q names no commit", field.revision)
		}
		used[markName(of.pipeline, promotion.EnvName(of.of.Name), commit)] = true
		wanted := of
		wanted.host, wanted.commit = *host, commit
		revision, why, done := m.read(wanted)
		switch {
		case !done && why == "":
			return promotion.NotSynced, "the markers of commit " + commit[:10] + " are being read"
		case why != "":
			return promotion.NoRevision, why
		}
		*field.to = revision
	}
	return "", ""
}

// read returns a revision that was read, or has it read.
func (m *marks) read(wanted mark) (revision, why string, done bool) {
	name := markName(wanted.pipeline, promotion.EnvName(wanted.of.Name), wanted.commit)
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.known[name]
	if one == nil || !one.isReadAs(wanted.host) {
		m.known[name] = &wanted
		m.queue.Forget(name) // the failures were those of another read
		m.queue.Add(name)
		return "", "", false
	}
	return one.revision, one.why, one.done
}

// isReadAs reports whether a read of the same commit by another configuration has the same result.
func (m *mark) isReadAs(host promotion.Host) bool {
	was := m.host
	return was.Type == host.Type && was.URL == host.URL && was.APIURL == host.APIURL && was.Secret == host.Secret &&
		slices.Equal(was.Paths, host.Paths)
}

// keep forgets the marks of a pipeline that are not used.
func (m *marks) keep(pipeline string, used map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.known {
		if strings.HasPrefix(name, pipeline+"/") && !used[name] {
			delete(m.known, name)
			m.queue.Forget(name)
		}
	}
}

// next reads one mark.
func (m *marks) next(ctx context.Context, name string) (again time.Duration, err error) {
	m.mu.Lock()
	one := m.known[name]
	m.mu.Unlock()
	if one == nil || one.done {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, markLimit, fmt.Errorf("reading markers took longer than %s", markLimit))
	defer cancel()
	lines, err := m.lines(ctx, one)
	failed, classified := errors.AsType[*mirror.Error](err)
	switch {
	case classified && failed.Class == mirror.Later:
		m.queue.AddAfter(name, markBusy)
		return 0, nil
	case err != nil && !(classified && failed.Class == mirror.Fatal):
		m.set(one, func() { one.why = "the markers cannot be read: " + err.Error() })
		if at := githost.Outcome(err).At; !at.IsZero() {
			again = max(time.Until(at), 0)
		}
		return again, err
	case err == nil:
		var revision string
		if revision, err = marker.Agreed(lines); err == nil {
			m.set(one, func() { one.revision, one.why, one.done = revision, "", true })
			return 0, nil
		}
	}
	m.set(one, func() { one.why = fmt.Sprintf("commit %.10s: %v", one.commit, err) })
	m.queue.AddAfter(name, markAgain)
	return 0, nil
}

// set changes a mark and has its pipeline looked at if that is news.
func (m *marks) set(one *mark, change func()) {
	m.mu.Lock()
	before := *one
	change()
	news := before.revision != one.revision || before.why != one.why || before.done != one.done
	m.mu.Unlock()
	if news {
		m.wake(one.pipeline)
	}
}

// lines reads the marked lines of a mark's commit.
func (m *marks) lines(ctx context.Context, one *mark) ([]marker.Line, error) {
	_, remote, err := m.remote(ctx, one.namespace, one.host)
	if err != nil {
		return nil, err
	}
	return m.cfg.Mirrors.Values(ctx, mirror.Request{Remote: remote, Of: one.of, Paths: one.host.Paths}, one.commit)
}

func (m *marks) failed(name string, err error, again time.Duration) {
	m.log.Warn("markers not read", obs.KeyName, name, obs.Error(err), obs.KeyRetryIn, again.String())
}

// client returns a client of a repository, with the credentials of its Secret.
func (t *term) client(ctx context.Context, namespace string, host promotion.Host) (*githost.Client, error) {
	var data map[string][]byte
	if host.Secret != "" {
		var err error
		if data, err = t.secret(ctx, namespace, host.Secret); err != nil {
			return nil, err
		}
	}
	return t.cfg.Hosts.Open(host, githost.KeysOf(data))
}

// secret reads a Secret of the management cluster, or of the configuration for a pipeline of a waybill.yaml.
func (t *term) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	if namespace == promotion.StageNamespace {
		return t.cfg.Secret(ctx, name)
	}
	data, _, err := t.cfg.Management.In(namespace).Secret(ctx, name)
	return data, err
}

// remote returns a client of a repository, and the repository as Git reaches it.
func (t *term) remote(ctx context.Context, namespace string, host promotion.Host) (*githost.Client, mirror.Remote, error) {
	client, err := t.client(ctx, namespace, host)
	if err != nil {
		return nil, mirror.Remote{}, err
	}
	remote, err := client.Remote(ctx, namespace+"/"+host.Secret)
	return client, remote, err
}
