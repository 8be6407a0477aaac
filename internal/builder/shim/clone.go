package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/git"
)

// cloneTimeout bounds the clone of a repository.
const cloneTimeout = 30 * time.Minute

// Clone makes a folder the clone of the commit that the environment names, for the container of the worker, which
// records the failure in the build's log: the text is left beside the folder. An error is what cannot be left there.
func Clone(ctx context.Context, get func(string) string) error {
	folder := get(shimv1.EnvCloneFolder)
	if !filepath.IsAbs(folder) {
		return fmt.Errorf("%s is %q: want the path of a folder; a provisioner starts this program", shimv1.EnvCloneFolder, folder)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cloneTimeout, fmt.Errorf("the clone took longer than %s", cloneTimeout))
	defer cancel()
	// left by a container that was started again
	if err := errors.Join(os.RemoveAll(folder), os.RemoveAll(folder+shimv1.CloneError)); err != nil {
		return err
	}
	err := git.Clone{URL: get(shimv1.EnvCloneURL), Commit: get(shimv1.EnvCloneCommit), Branch: get(shimv1.EnvCloneBranch),
		Credentials: get(shimv1.EnvCloneCredentials)}.Into(ctx, folder)
	if err == nil {
		return nil
	}
	reason := []byte(err.Error())
	if left := os.WriteFile(folder+shimv1.CloneError, reason[:min(len(reason), shimv1.MostCloneError)], 0o600); left != nil {
		return errors.Join(err, left)
	}
	return nil
}
