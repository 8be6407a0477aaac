package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// upload fills the volume of the container, as a stream. For a user other than root every file can be written: no other container
// sees the volume.
func (s *step) upload(ctx context.Context, user string) error {
	open := int64(0)
	if user != "" && user != "0" && user != "root" {
		open = 0o666
	}
	shape := func(h *tar.Header) {
		h.Mode |= open
		if open != 0 && (h.Typeflag == tar.TypeDir || h.Mode&0o111 != 0) {
			h.Mode |= 0o111
		}
	}
	_, err := persist(ctx, func(ctx context.Context) (client.CopyToContainerResult, error) {
		reader, writer := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := s.pack(ctx, writer, shape)
			_ = writer.CloseWithError(err) // never fails
			packed <- err
		}()
		out, err := s.engine.api.CopyToContainer(ctx, s.id, client.CopyToContainerOptions{DestinationPath: path.Dir(workdir), Content: reader})
		_ = reader.CloseWithError(errors.New("the Engine takes no more files")) // never fails
		if packErr := <-packed; packErr != nil && !broken(err) {
			return out, packErr // an Engine that stopped reading has given the reason in err
		}
		return out, err
	})
	if err != nil {
		return fmt.Errorf("fill the workspace of %s: %w", s.run.Step.Path(), err)
	}
	return nil
}

// pack writes the workspace, and the commands if they have passwords.
func (s *step) pack(ctx context.Context, w io.Writer, shape func(*tar.Header)) error {
	archive := tar.NewWriter(w)
	root := path.Base(workdir)
	header := &tar.Header{Typeflag: tar.TypeDir, Name: root + "/", Mode: 0o755, ModTime: time.Now(), Format: tar.FormatPAX}
	shape(header)
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if err := workspace.WriteTar(ctx, archive, s.files.Repo(), func(h *tar.Header) {
		h.Name = root + "/" + h.Name
		shape(h)
	}); err != nil {
		return err
	}
	if spec := s.run.Step.Spec; spec.Secret {
		commands := spec.Argv[len(spec.Argv)-1]
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: commandsFile, Size: int64(len(commands)),
			Mode: 0o444, Format: tar.FormatPAX})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(archive, commands); err != nil {
			return err
		}
	}
	return archive.Close()
}

// download takes the wanted files out of the stopped container. A copy that is cut begins again while it comes further than before.
func (s *step) download(ctx context.Context, dir string, wanted attempt.Wanted) error {
	if len(wanted.Globs)+len(wanted.Parts) == 0 {
		return nil
	}
	furthest := int64(0)
	_, err := persist(ctx, func(ctx context.Context) (struct{}, error) {
		if err := workspace.Remove(dir); err != nil {
			return struct{}{}, err
		}
		n, err := s.gather(ctx, dir, wanted)
		if broken(err) && 0 < n && n <= furthest {
			err = fmt.Errorf("copy the files of %s: cut again after %d bytes: %v", s.run.Step.Path(), n, err) //nolint:errorlint // persist would repeat it
		}
		furthest = max(furthest, n)
		return struct{}{}, err
	})
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("the container of %s was removed: %w", s.run.Step.Path(), err)
	}
	return err
}

// gather tries a download once. It returns how many bytes came.
func (s *step) gather(ctx context.Context, dir string, wanted attempt.Wanted) (n int64, err error) {
	err = workspace.Gather(ctx, func() (io.ReadCloser, error) {
		files, err := s.engine.api.CopyFromContainer(ctx, s.id, client.CopyFromContainerOptions{SourcePath: workdir})
		return attempt.CountingReader{ReadCloser: files.Content, N: &n}, err
	}, dir, wanted.In)
	return n, err
}
