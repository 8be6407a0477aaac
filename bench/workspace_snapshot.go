package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// snapshotFlags declares the flags of snapshot.
func snapshotFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Files, "files", 12_000, "files of the workspace, from the sources of Go")
	f.IntVar(&o.Size, "size", 112, "megabytes that they come to at most")
}

// packWorkspace measures how long the snapshot of a workspace takes, beside tar to a pipe and tar to zstd -1, in turn, from a warm cache.
func packWorkspace(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, out := filepath.Join(dir, "workspace"), filepath.Join(dir, "out")
	size, err := fillWorkspace(ctx, root, o.Files, int64(o.Size)<<20)
	if err != nil {
		return nil, err
	}
	own := Result{Subject: fmt.Sprintf("snapshot of %d files, %.0f MB", o.Files, float64(size)/1e6)}
	tar := Result{Subject: "tar to a pipe", Version: firstLine(ctx, "tar", "--version")}
	pair := Result{Subject: "tar | zstd -1", Version: firstLine(ctx, "zstd", "--version")}
	var packed workspace.Packed
	subjects := []struct {
		result *Result
		run    func() error
	}{
		{&own, func() (err error) {
			packed, err = workspace.PackFile(ctx, out, root, workspace.Selection{})
			return err
		}},
		{&tar, func() error { return shell(ctx, root, "tar -cf - . | cat >/dev/null", out) }},
		{&pair, func() error { return shell(ctx, root, `tar -cf - . | zstd -q -1 -f -o "$1"`, out) }},
	}
	for round := range o.Rounds + 1 {
		for _, s := range subjects {
			began := time.Now()
			if err := s.run(); err != nil {
				return nil, fmt.Errorf("%s: %w", s.result.Subject, err)
			}
			if round > 0 { // the first fills the caches
				s.result.Rounds = append(s.result.Rounds, measured(1, began))
			}
		}
	}
	for _, s := range subjects {
		s.result.Bench, s.result.Unit = "snapshot", "s"
		s.result.summarizeBy(func(r Round) float64 { return r.Seconds })
	}
	against, small := own, own
	own.Ratio, own.Rival = own.Median/tar.Median, tar.Subject
	own.judge("at most 0.9 s, and 2 × "+tar.Subject, own.Ratio <= 2 && own.Median <= 0.9)
	against.Ratio, against.Rival = own.Median/pair.Median, pair.Subject
	against.judge("at most 1.1 × "+pair.Subject, against.Ratio <= 1.1)
	small.Subject, small.Unit, small.Rival = "size of the snapshot", "MB", "the files"
	small.Median, small.Spread, small.Ratio = float64(packed.Size)/1e6, [2]float64{}, float64(packed.Size)/float64(size)
	small.judge("at most 0.25 × the files", small.Ratio <= 0.25)
	return []Result{own, against, tar, pair, small}, nil
}

// shell runs a line of shell in a folder; $1 is a file that it may write.
func shell(ctx context.Context, dir, line, out string) error {
	c := exec.CommandContext(ctx, "sh", "-c", line, "sh", out)
	c.Dir, c.Stderr = dir, os.Stderr
	return c.Run()
}

func firstLine(ctx context.Context, program string, arguments ...string) string {
	out, err := exec.CommandContext(ctx, program, arguments...).Output()
	if err != nil {
		return "unknown"
	}
	return string(out[:max(0, indexOrEnd(out))])
}

// largestOfWorkspace is the size in bytes above which a file of Go's sources, such as a table, is left out.
const largestOfWorkspace = 768 << 10

// fillWorkspace copies files of Go's sources, again and again until there are so many, and at most so many bytes. It returns their bytes.
func fillWorkspace(ctx context.Context, root string, files int, most int64) (size int64, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return 0, fmt.Errorf("find the sources of Go: %w", err)
	}
	sources := filepath.Join(string(out[:indexOrEnd(out)]), "src")
	errFull := errors.New("full")
	for again := 0; files > 0; again++ {
		err := filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil || len(content) > largestOfWorkspace {
				return err
			}
			relative, err := filepath.Rel(sources, path)
			if err != nil {
				return err
			}
			if files--; files < 0 || size+int64(len(content)) > most {
				return errFull
			}
			size += int64(len(content))
			to := filepath.Join(root, strconv.Itoa(again), relative)
			return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644))
		})
		if errors.Is(err, errFull) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	runtime.GC() // what was copied
	return size, nil
}

func indexOrEnd(text []byte) int {
	for i, b := range text {
		if b == '\n' {
			return i
		}
	}
	return len(text)
}
