package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"
)

// imageFile is the path where a builder leaves the image that is loaded into the Engine. Every user can write its
// folder.
const imageFile = "/tmp/waybill-image.tar"

// loads reports whether the step makes an image that is kept in the Engine, since it is not pushed.
func (s *step) loads() bool {
	image := s.run.Step.Spec.Build
	return image != nil && !image.Push && image.Address == ""
}

// load has the Engine take the image that the step has made, out of the stopped container.
func (s *step) load(ctx context.Context) error {
	_, err := persist(ctx, func(ctx context.Context) (struct{}, error) {
		files, err := s.engine.api.CopyFromContainer(ctx, s.id, client.CopyFromContainerOptions{SourcePath: imageFile})
		if err != nil {
			return struct{}{}, err
		}
		defer files.Content.Close()
		archive := tar.NewReader(files.Content)
		if _, err := archive.Next(); err != nil {
			return struct{}{}, err
		}
		loaded, err := s.engine.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
		if err != nil {
			return struct{}{}, err
		}
		_, err = io.Copy(io.Discard, loaded)
		return struct{}{}, errors.Join(err, loaded.Close())
	})
	if err != nil {
		return fmt.Errorf("load the image of %s into the Engine: %w", s.run.Step.Path(), err)
	}
	for _, name := range s.run.Step.Spec.Build.Destinations {
		if _, err := s.inspect(ctx, name); err != nil {
			return fmt.Errorf("load the image of %s into the Engine: %w", s.run.Step.Path(), err)
		}
		if err := s.sink.Note("image " + name + " is in the Engine"); err != nil {
			return err
		}
	}
	return nil
}
