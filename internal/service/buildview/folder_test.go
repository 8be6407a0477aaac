package buildview_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// TestABuildThatEndsWhileItIsReadIsNotLost: its worker dies while its status is read, which takes a while since it is large.
func TestABuildThatEndsWhileItIsReadIsNotLost(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*testing.T, *buildview.Folders) (build.Status, error){
		"in a list": func(t *testing.T, f *buildview.Folders) (build.Status, error) {
			list, err := f.Builds(t.Context(), buildview.Query{})
			if err != nil || len(list.Builds) != 1 {
				return "", errors.Join(err, errors.New("the build is not listed"))
			}
			return list.Builds[0].Status, nil
		},
		"alone": func(t *testing.T, f *buildview.Folders) (build.Status, error) {
			r, err := f.OpenBuild(t.Context(), "7")
			if err != nil {
				return "", err
			}
			state, err := r.State(t.Context())
			return state.Status, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			store, err := results.Create(filepath.Join(root, "7"), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			status := filepath.Join(store.Dir(), "steps", "0", "status.json")
			update := func(s build.Status) (text []byte) {
				t.Helper()
				_, err := store.Update(0, build.Update{Status: s, Timestamp: time.Now()})
				if err == nil {
					text, err = os.ReadFile(status)
				}
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			if err := store.Describe(results.Build{ID: "7", Plan: &build.Plan{}}); err != nil {
				t.Fatal(err)
			}
			running, ended := update(build.Running), update(build.Completed)
			if err := os.WriteFile(status, append(bytes.Repeat([]byte(" "), 8<<20), running...), 0o600); err != nil {
				t.Fatal(err)
			}
			folders := buildview.NewFolders(root, nil)
			first, last := make(chan struct{}, 1), make(chan error, 1)
			go func() {
				for {
					got, err := read(t, folders)
					if err == nil && got == build.Running {
						select {
						case first <- struct{}{}:
						default:
						}
						continue
					}
					if err == nil && got != build.Completed {
						err = errors.New("it is " + string(got))
					}
					last <- err
					return
				}
			}()
			select {
			case <-first:
			case err := <-last:
				t.Fatal(err)
			}
			err = errors.Join(os.WriteFile(status+".new", ended, 0o600), os.Rename(status+".new", status), store.Close())
			if err := errors.Join(err, <-last); err != nil {
				t.Error(err)
			}
			if got, err := read(t, folders); err != nil || got != build.Completed {
				t.Errorf("then it is %s, %v", got, err)
			}
		})
	}
}
