package assembly

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/server"
)

// mostKeys bounds a file of builder keys, in bytes.
const mostKeys = 4 << 10

// BuilderKeys reads the keys that the workers' tokens are made of. Without a named file they are in builder.key of the home, which
// the first call makes; of processes that do so at the same moment, the first one's key counts.
func (h Home) BuilderKeys(named string) (build.BuilderKeys, error) {
	path := cmp.Or(named, h.file("builder.key"))
	keys, err := readBuilderKeys(path)
	if named != "" || !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	secret := make([]byte, build.BuilderSecretSize)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(h.Dir, ".builder-key-*") // with mode 0600
	if err != nil {
		return nil, h.unusable(err)
	}
	defer os.Remove(file.Name())
	_, writeErr := file.WriteString(build.BuilderKeys{{Number: 1, Secret: secret}}.Format())
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return nil, h.unusable(err)
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, h.unusable(err)
	}
	return readBuilderKeys(path)
}

func readBuilderKeys(path string) (build.BuilderKeys, error) {
	text, err := ReadRegular(path, mostKeys)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read the builder's key: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Invalid, "other users may read %s, with which tokens of workers can be made", path).WithHint("chmod 600 %s", path)
	}
	keys, err := build.ParseBuilderKeys(string(text))
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the builder's key in %s: %w", path, err)
	}
	return keys, nil
}

// workerBackend is a back end of a provisioner that has a loop.
type workerBackend interface {
	provisioner.Backend
	Run(ctx context.Context) error
	Close() error
}

// workerBackend makes what runs the workers, and returns its name.
func (s *Session) workerBackend(c config.Provisioner, keys build.BuilderKeys, log *slog.Logger) (backend workerBackend, name string, err error) {
	if d := c.Docker; d != nil {
		engine, err := docker.Open(d.Host)
		if err != nil {
			return nil, "", fault.Wrap(fault.Invalid, err)
		}
		return provisioner.NewDocker(provisioner.DockerConfig{Engine: engine, Image: d.Image, Network: d.Network, Host: c.Host, Advertise: c.Advertise,
			Memory: d.Memory, Keys: keys, Snapshots: &provisioner.Snapshots{Blobs: s.blobs, Largest: c.Largest, Log: log}, Credentials: c.Credentials,
			Grace: c.Grace, Linger: c.Linger, Keep: c.Keep, Log: log}), "docker", nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find this program, to run builds with it: %w", err)
	}
	local, err := provisioner.OpenLocal(provisioner.LocalConfig{Dir: s.Home.file("workers"), Program: []string{program}, Blobs: s.blobs,
		Credentials: c.Credentials, Host: c.Host, Advertise: c.Advertise, Grace: c.Grace, Linger: c.Linger, Keep: c.Keep, Log: log})
	return local, "local", err
}

// provisioner makes the role that starts workers, and takes its port.
func (s *Session) provisioner(ctx context.Context, o RoleOptions) (role lifecycle.Role, err error) {
	c := s.Live.Now().Builder
	keys, err := s.Home.BuilderKeys(c.Key)
	if err != nil {
		return role, err
	}
	access, err := s.workerAccess()
	if err != nil {
		return role, err
	}
	log := obs.Component(cmp.Or(o.Log, slog.New(slog.DiscardHandler)), RoleProvisioner)
	backend, name, err := s.workerBackend(c.Provisioner, keys, log)
	if err != nil {
		return role, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Provisioner.Listen)
	if err != nil {
		return role, errors.Join(fault.New(fault.Unavailable, "listen for requests for workers: %w", err).
			WithHint("builder: {provisioner: {listen: \"127.0.0.1:0\"}}"), backend.Close())
	}
	served := provisioner.New(provisioner.Config{Backend: backend, Name: name, Access: access, Keys: keys, Concurrent: c.Provisioner.Concurrent,
		PerProject: c.Provisioner.PerProject, Log: log, Metrics: obs.NewProvisioner(o.registerer())})
	log.Info("requests for workers are served", obs.KeyURL, "http://"+listener.Addr().String())
	return lifecycle.Role{Name: RoleProvisioner, Run: func(ctx context.Context) error {
		own, cancel := context.WithCancel(ctx)
		var tidying sync.WaitGroup
		tidying.Go(func() { _ = backend.Run(own) }) // it returns nil
		err := served.Serve(ctx, listener)
		cancel()
		tidying.Wait()
		return errors.Join(err, backend.Close())
	}}, nil
}

// workerAccess returns the check of tokens that may use a provisioner: that of the home, those that server.yaml names by their
// digests, and those of the log with the scope worker.
func (s *Session) workerAccess() (func(ctx context.Context, token string) error, error) {
	own, err := server.HomeToken(s.Home.Token())
	if err != nil {
		return nil, err
	}
	ownSum := sha256.Sum256([]byte(own))
	return func(ctx context.Context, token string) error {
		sum := sha256.Sum256([]byte(token))
		named := slices.ContainsFunc(s.Live.Now().Builder.Provisioner.Tokens, func(digest string) bool {
			want, _ := hex.DecodeString(digest) // checked when it was read
			return subtle.ConstantTimeCompare(sum[:], want) == 1
		})
		if named || subtle.ConstantTimeCompare(sum[:], ownSum[:]) == 1 {
			return nil
		}
		stored, err := s.Ledger.TokenByHash(ctx, sum)
		switch {
		case fault.Is(err, fault.NotFound):
			return fault.New(fault.Unauthorized, "the token is not valid")
		case err != nil:
			return err
		case !stored.Valid(time.Now()):
			return fault.New(fault.Unauthorized, "the token is not valid")
		case !slices.Contains(stored.Scopes, string(server.ScopeWorker)):
			return fault.New(fault.Forbidden, "the token of %s lacks the scope %q", stored.Name, server.ScopeWorker)
		}
		return nil
	}, nil
}
