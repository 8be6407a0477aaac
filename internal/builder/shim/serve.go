package shim

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// results is one container of the results.
type results struct {
	Config
	root    *os.Root // the shared folder, which the step's program can write into
	release sync.Once
	done    chan struct{}
}

// Serve gives the spool and the workspace's files to the worker until the worker releases it, or until ctx ends.
func Serve(ctx context.Context, c Config, l net.Listener) error {
	root, err := os.OpenRoot(c.Folder)
	if err != nil {
		return fmt.Errorf("open the folder of the shims: %w", err)
	}
	defer root.Close()
	s := &results{Config: c, root: root, done: make(chan struct{})}
	ctx, heard, stop := c.untilSilence(ctx)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+shimv1.PathOutput, s.output)
	mux.HandleFunc("GET "+shimv1.PathFiles, s.files)
	mux.HandleFunc("POST "+shimv1.PathAlive, s.touch(fileAlive))
	mux.HandleFunc("POST "+shimv1.PathStop, s.touch(fileStop))
	mux.HandleFunc("POST "+shimv1.PathRelease, func(http.ResponseWriter, *http.Request) {
		s.release.Do(func() { close(s.done) })
	})
	return listen(ctx, c.authorized(mux, heard), l, s.done)
}

// touch returns a handler that writes one of the files that exec looks at.
func (s *results) touch(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := touch(s.root, name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// output sends the spool from a byte on and follows it to its end.
func (s *results) output(w http.ResponseWriter, r *http.Request) {
	offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		http.Error(w, "offset: want a number of bytes", http.StatusBadRequest)
		return
	}
	follow := r.URL.Query().Get("follow") != "false"
	w.Header().Set("Content-Type", "application/octet-stream")
	sent := http.NewResponseController(w)
	again := time.NewTicker(pollPause)
	defer again.Stop()
	for {
		_, err := s.root.Stat(fileEnded)
		last := err == nil || !follow // looked at before the spool is read, so that nothing comes after
		n, err := s.copyFrom(w, offset)
		offset += n
		if err != nil || last {
			return
		}
		if err := sent.Flush(); err != nil { // also at first, so that the worker sees an answer
			return
		}
		select {
		case <-again.C:
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// copyFrom copies the spool from a byte on. A spool that is not there yet has nothing.
func (s *results) copyFrom(w io.Writer, offset int64) (int64, error) {
	f, _, err := file.OpenIn(s.root, fileOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, f)
}

// files sends a snapshot of files. One that is cut is an error where it is unpacked, so the connection is cut on every fault.
func (s *results) files(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/octet-stream")
	var err error
	if parts := query["part"]; len(parts) > 0 {
		_, err = workspace.PackPart(r.Context(), w, s.Repo, build.CacheRule{Paths: parts}.In)
	} else {
		err = packMatching(r.Context(), w, s.Repo, query["file"])
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the way to cut the connection
	}
}

// packMatching writes a snapshot of the files that match a glob. Links become the files in the workspace that they
// lead to, but for those that lead to content of the snapshot too, or to no file.
func packMatching(ctx context.Context, w io.Writer, repo string, globs []string) error {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return err
	}
	defer root.Close()
	files, links, err := workspace.Files(root, repo)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Concat(files, links), func(name string) bool {
		return !slices.ContainsFunc(globs, func(glob string) bool { return build.MatchGlob(glob, name) })
	})
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	if _, err := workspace.NewArchived(root, names).Add(ctx, archive, true); err != nil {
		return err // without the archive's end, so that it is not taken for whole
	}
	return errors.Join(archive.Close(), compressed.Close())
}
