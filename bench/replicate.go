package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	host "github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

func replicateFlags(f *flag.FlagSet, o *Options) {
	o.Size = 128
	f.IntVar(&o.Size, "size", 128, "megabytes of the release")
	f.IntVar(&o.Files, "files", 0, "small files of the release, in place of --size")
}

// replicate measures how fast a release goes to an ssh host, and how fast one is found unchanged. The rival copies
// the same files by OpenSSH's client and tar, which verify nothing and keep no contents, and syncs the disk at the end.
func replicate(ctx context.Context, o Options) ([]Result, error) {
	s, err := startSSH(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if o.Files > 0 {
		return replicateFiles(ctx, s, o)
	}
	fresh := Result{Bench: "replicate", Subject: fmt.Sprintf("Waybill, a new release of %d MB", o.Size), Unit: "MB/s"}
	rival := Result{Bench: "replicate", Subject: "tar | ssh tar -x", Unit: "MB/s", Version: openSSHVersion(ctx)}
	unchanged := Result{Bench: "replicate", Subject: "Waybill, an unchanged release", Unit: "MB/s"}
	for n := range o.Rounds {
		files := releaseOf(n, o.Size)
		r, err := newReplication(ctx, s, files)
		if err != nil {
			return nil, err
		}
		for _, result := range []*Result{&fresh, &unchanged} {
			if err := r.round(ctx, s, o.Size, result); err != nil {
				return nil, err
			}
		}
		r.pool.Close()
		if err := s.copyByTar(ctx, files, o.Size, &rival); err != nil {
			return nil, err
		}
	}
	for _, r := range []*Result{&fresh, &rival, &unchanged} {
		r.summarize()
	}
	fresh.against(rival, 0)
	unchanged.judge("beat 279 MB/s", unchanged.Median > 279)
	return []Result{fresh, rival, unchanged}, nil
}

// releaseOf returns a tar of files that no compression makes smaller, half of its bytes in files of 1 MB and half in
// those of 16 MB.
func releaseOf(seed, megabytes int) []byte {
	var b bytes.Buffer
	w, noise := tar.NewWriter(&b), rand.NewChaCha8([32]byte{byte(seed), 1})
	for left, i := megabytes, 0; left > 0; i++ {
		size := 1
		if left > megabytes/2 && left >= 16 {
			size = 16
		}
		left -= size
		content := make([]byte, size<<20)
		_, _ = noise.Read(content) // never fails
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("data/%03d", i), Mode: 0o644, Size: int64(len(content))})
		_, _ = w.Write(content)
	}
	_ = w.Close() // into memory
	return b.Bytes()
}

// replicateFiles measures how fast a release of many small files goes to an ssh host and to a local one, and how fast one is
// found unchanged. The rival is that of replicate.
func replicateFiles(ctx context.Context, s *sshServer, o Options) (results []Result, err error) {
	rival := Result{Bench: "replicate", Subject: "tar | ssh tar -x", Unit: "files/s", Version: openSSHVersion(ctx)}
	for n := range o.Rounds {
		if err := s.copyByTar(ctx, smallFiles(n, o.Files), o.Files, &rival); err != nil {
			return nil, err
		}
	}
	rival.summarize()
	for _, way := range []string{"ssh", "local"} {
		fresh := Result{Bench: "replicate", Subject: fmt.Sprintf("%s, a new release of %d files", way, o.Files), Unit: "files/s"}
		unchanged := Result{Bench: "replicate", Subject: way + ", an unchanged release", Unit: "files/s"}
		for n := range o.Rounds {
			r, err := newReplication(ctx, s, smallFiles(n, o.Files))
			if err != nil {
				return nil, err
			}
			if way == "local" {
				r.definition.Stages[0].Groups[0].Hosts[0].URL = "local://h000000"
			}
			for _, result := range []*Result{&fresh, &unchanged} {
				if err := r.round(ctx, s, o.Files, result); err != nil {
					return nil, err
				}
			}
			r.pool.Close()
		}
		fresh.summarize()
		unchanged.summarize()
		fresh.against(rival, 0)
		results = append(results, fresh, unchanged)
	}
	return append(results, rival), nil
}

// smallFiles returns a tar of so many files of 1 KB, a hundred in a folder.
func smallFiles(seed, files int) []byte {
	var b bytes.Buffer
	w, noise := tar.NewWriter(&b), rand.NewChaCha8([32]byte{byte(seed), 2})
	content := make([]byte, 1<<10)
	for i := range files {
		_, _ = noise.Read(content) // never fails
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("data/%04d/%02d", i/100, i%100), Mode: 0o644, Size: int64(len(content))})
		_, _ = w.Write(content)
	}
	_ = w.Close() // into memory
	return b.Bytes()
}

// replication is a handler of steps and the little of a log that it reads: one host, one revision.
type replication struct {
	handler    *host.Handler
	pool       *ssh.Pool
	definition pipeline.Definition
	revision   pipeline.RegisteredRevision
	attempts   int
}

func newReplication(ctx context.Context, s *sshServer, files []byte) (*replication, error) {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return nil, err
	}
	blobs, err := blob.Open(ctx, filepath.Join(home, "blobs"))
	if err != nil {
		return nil, err
	}
	key, digest, size, err := blobs.Put(ctx, "sha256/", bytes.NewReader(files))
	if err != nil {
		return nil, err
	}
	r := &replication{pool: ssh.NewPool(ssh.Config{}),
		revision: pipeline.RegisteredRevision{Pipeline: "bench", Seq: 1, Label: "r1",
			Artifacts: []pipeline.RevisionArtifact{{Label: "any", Name: "release.tar", Digest: digest, Size: size, Blob: key}}}}
	r.definition = fleet(1, 1)
	r.definition.SSH = &pipeline.SSH{Identity: s.file("id"), KnownHosts: s.file("known_hosts")}
	at := &r.definition.Stages[0].Groups[0].Hosts[0]
	at.URL, at.Root = "ssh://"+s.user+"@"+s.hosts[0], filepath.Join(home, "root")
	r.handler = host.New(host.Config{Hosts: host.Hosts{Home: home, Dir: home, SSH: r.pool}, Ledger: r, Blobs: blobs, LedgerID: "bench"})
	return r, nil
}

// round makes one attempt to replicate and counts the CPU time of this process. The server's is counted by no
// one: the connection stays.
func (r *replication) round(ctx context.Context, s *sshServer, megabytes int, result *Result) error {
	r.attempts++
	before, start := ownCPU(), time.Now()
	outcome := r.handler.Do(ctx, conductor.Attempt{Number: r.attempts, Action: action.Action{ID: action.ID{1}, Handler: "step",
		Step: &action.StepRef{Pipeline: "bench", Deployment: 1, Target: "fleet/s00/all/s00h000000",
			Event: pipeline.HostReplicated, Revision: 1, Version: 1}}})
	round := measured(megabytes, start)
	if outcome.Kind != action.Done {
		return errors.New(outcome.Error)
	}
	var out host.Output
	if err := json.Unmarshal(outcome.Output, &out); err != nil {
		return err
	}
	if out.Already != (r.attempts > 1) {
		return fmt.Errorf("attempt %d at %s sent %d bytes", r.attempts, s.hosts[0], out.Sent)
	}
	round.ClientCPU = float64((ownCPU() - before).Microseconds()) / float64(megabytes)
	result.Rounds = append(result.Rounds, round)
	return nil
}

// copyByTar sends the files by OpenSSH's client to a folder of their own.
func (s *sshServer) copyByTar(ctx context.Context, files []byte, megabytes int, result *Result) error {
	folder, err := os.MkdirTemp(s.dir, "tar-")
	if err != nil {
		return err
	}
	c := s.client(ctx, s.hosts[0], "true")
	c.Args[len(c.Args)-1] = "tar -xf - -C " + folder + " && sync -f " + folder
	c.Stdin = bytes.NewReader(files)
	start := time.Now()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("tar over ssh: %w: %s", err, out)
	}
	round := measured(megabytes, start)
	round.ClientCPU = float64((c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Microseconds()) / float64(megabytes)
	result.Rounds = append(result.Rounds, round)
	return os.RemoveAll(folder)
}

// Definition, Revision and the rest are what a step reads of a log.
func (r *replication) Definition(context.Context, string, int) (pipeline.Definition, error) {
	return r.definition, nil
}

func (r *replication) Revision(context.Context, string, string, int64) (pipeline.RegisteredRevision, error) {
	return r.revision, nil
}

func (r *replication) Era(context.Context) (int64, error) { return 0, nil }

func (r *replication) EntriesUnder(context.Context, string, int64, string) ([]pipeline.Entry, error) {
	return nil, nil
}

func (r *replication) Remark(context.Context, string, pipeline.Entry) error { return nil }
