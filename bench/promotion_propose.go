package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/waybill-dev/waybill/internal/git/mirror"
)

// proposeFlags declares the flags of propose.
func proposeFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Files, "files", 2000, "files of the fleet")
	f.IntVar(&o.N, "n", 200, "files with a marker of the environment")
	f.IntVar(&o.Entries, "commits", 100_000, "commits of the repository of the cold mirror")
}

// propose measures the time until a head branch with the marked values is on a Git server on this machine: with a mirror that has the base
// branch already, and without one from a repository of many commits. Beside each, go-git clones, commits and pushes.
func propose(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	address, stop, err := serveGit(dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := makeRepository(ctx, filepath.Join(dir, "warm.git"), o, 1); err != nil {
		return nil, err
	}
	if err := makeRepository(ctx, filepath.Join(dir, "cold.git"), o, o.Entries); err != nil {
		return nil, err
	}
	b := proposing{dir: dir, url: address, files: o.Files, marked: o.N}
	warm, err := b.compare(ctx, "warm", "warm mirror", o.Rounds)
	if err != nil {
		return nil, err
	}
	cold, err := b.compare(ctx, "cold", fmt.Sprintf("cold mirror, %d commits", o.Entries), 1)
	if err != nil {
		return nil, err
	}
	warm[0].judge("at most 500 ms", warm[0].Median <= 500)
	cold[0].judge("at most 5000 ms", cold[0].Median <= 5000)
	return append(warm, cold...), nil
}

// proposing has a Git server with repositories.
type proposing struct {
	dir, url      string
	files, marked int
	revision      int
}

// compare measures rounds of Waybill and of go-git in turn.
func (b *proposing) compare(ctx context.Context, name, subject string, rounds int) ([]Result, error) {
	own, rival := Result{Subject: subject}, Result{Subject: "go-git, " + name, Version: "go-git 5"}
	store, err := mirror.Open(mirror.Options{Dir: filepath.Join(b.dir, "mirrors-"+name), PlainHTTP: true})
	if err != nil {
		return nil, err
	}
	if name == "warm" {
		if err := b.own(ctx, store, name); err != nil {
			return nil, err
		}
	}
	for range rounds {
		for i, run := range []func() error{
			func() error { return b.own(ctx, store, name) },
			func() error { return b.goGit(ctx, name) },
		} {
			began := time.Now()
			if err := run(); err != nil {
				return nil, fmt.Errorf("%s: %w", subject, err)
			}
			result := []*Result{&own, &rival}[i]
			result.Rounds = append(result.Rounds, measured(1, began))
		}
	}
	for _, r := range []*Result{&own, &rival} {
		r.Bench, r.Unit = "propose", "ms"
		r.summarizeBy(func(r Round) float64 { return r.Seconds * 1000 })
	}
	own.Ratio, own.Rival = own.Median/rival.Median, rival.Subject
	return []Result{own, rival}, nil
}

// own proposes the next revision by package mirror.
func (b *proposing) own(ctx context.Context, store *mirror.Store, name string) error {
	b.revision++
	r, err := store.Propose(ctx, mirror.Request{
		Remote: mirror.Remote{URL: b.url + name + ".git"}, Base: "main", Head: "promotion-apps-podinfo-prod", Of: fleetOf,
		Revision: fmt.Sprintf("7.0.%d", b.revision), Run: "1", At: time.Now(),
	})
	if err == nil && (!r.Pushed || len(r.Lines) != b.marked) {
		err = fmt.Errorf("%d lines were pushed: %t", len(r.Lines), r.Pushed)
	}
	return err
}

// goGit clones, edits the files by the setters of kyaml, commits and pushes.
func (b *proposing) goGit(ctx context.Context, name string) error {
	b.revision++
	dir, err := os.MkdirTemp(b.dir, "clone")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	repository, err := gogit.PlainCloneContext(ctx, dir, false, &gogit.CloneOptions{
		URL: b.url + name + ".git", ReferenceName: "refs/heads/main", SingleBranch: true, Tags: gogit.NoTags})
	if err != nil {
		return err
	}
	tree, err := repository.Worktree()
	if err != nil {
		return err
	}
	if err := tree.Checkout(&gogit.CheckoutOptions{Branch: "refs/heads/rival", Create: true}); err != nil {
		return err
	}
	if _, err := setFleet(dir, fmt.Sprintf("7.0.%d", b.revision)); err != nil {
		return err
	}
	if err := tree.AddWithOptions(&gogit.AddOptions{All: true}); err != nil {
		return err
	}
	if _, err := tree.Commit("promoting version", &gogit.CommitOptions{Author: &object.Signature{Name: "rival", When: time.Now()}}); err != nil {
		return err
	}
	refs := []config.RefSpec{config.RefSpec("+refs/heads/rival:" + plumbing.NewBranchReferenceName("rival").String())}
	return repository.PushContext(ctx, &gogit.PushOptions{RemoteName: "origin", RefSpecs: refs})
}

// serveGit serves the repositories of a folder over HTTP.
func serveGit(dir string) (address string, stop func(), err error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&cgi.Handler{Path: strings.TrimSpace(string(out)) + "/git-http-backend", Dir: dir, Stderr: io.Discard, Env: []string{
			"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=bench", "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol")}}).ServeHTTP(w, r)
	}))
	return server.URL + "/", server.Close, nil
}

// makeRepository makes a bare repository with a fleet and so many commits.
func makeRepository(ctx context.Context, dir string, o Options, commits int) error {
	files := dir + ".files"
	if err := writeFleet(files, o.Files, o.N); err != nil {
		return err
	}
	git := func(arguments ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "git", arguments...)
		c.Stderr = os.Stderr
		return c
	}
	if err := errors.Join(git("init", "--quiet", "--bare", "-b", "main", dir).Run(),
		git("-C", dir, "config", "http.receivepack", "true").Run()); err != nil {
		return err
	}
	load := git("-C", dir, "fast-import", "--quiet")
	in, err := load.StdinPipe()
	if err != nil {
		return err
	}
	if err := load.Start(); err != nil {
		return err
	}
	written := writeHistory(in, files, commits)
	return errors.Join(written, in.Close(), load.Wait())
}

// writeHistory writes commits for fast-import: the first has the files, each other one changes a file beside them.
func writeHistory(to io.Writer, files string, commits int) error {
	w := bufio.NewWriter(to)
	for i := range commits {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
		if i > 0 {
			fmt.Fprintf(w, "M 644 inline notes/%d\ndata %d\n%d\n", i%1000, len(fmt.Sprint(i)), i)
			continue
		}
		err := filepath.WalkDir(files, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			relative, _ := filepath.Rel(files, path) // both are below the same folder
			fmt.Fprintf(w, "M 644 inline %s\ndata %d\n%s\n", relative, len(data), data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return w.Flush()
}
