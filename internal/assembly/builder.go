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
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
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
	text, err := file.ReadRegular(path, mostKeys)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read the builder's key: %w", err)
	}
	if info, err := os.Stat(path); err != nil || file.OthersMayUse(info) {
		return nil, fault.New(fault.Invalid, "other users may read %s, with which tokens of workers can be made", path).
			WithHint("chmod 600 %s", path)
	}
	keys, err := build.ParseBuilderKeys(string(text))
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the builder's key in %s: %w", path, err)
	}
	return keys, nil
}

// program returns the argv of this program, to which a command that runs a build is appended. A build reads its tools
// from the same configuration.
func (s *Session) program() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run builds with it: %w", err)
	}
	if s.Live.Now().Builder.Tools == (build.Tools{}) {
		return []string{self}, nil
	}
	path, _ := s.place.ConfigPath(s.Home)
	return []string{self, "--config", path}, nil
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
	backend, err := s.backend(c.Provisioner, keys, log)
	if err != nil {
		return role, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Provisioner.Listen)
	if err != nil {
		return role, errors.Join(fault.New(fault.Unavailable, "listen for requests for workers: %w", err).
			WithHint("builder: {provisioner: {listen: \"127.0.0.1:0\"}}"), backend.close())
	}
	served := provisioner.New(provisioner.Config{Backend: backend, Name: backend.name, Access: access, Keys: keys,
		Concurrent: c.Provisioner.Concurrent,
		PerProject: c.Provisioner.PerProject, Log: log, Metrics: obs.NewProvisioner(o.registerer())})
	log.Info("requests for workers are served", obs.KeyURL, "http://"+listener.Addr().String())
	return lifecycle.Role{Name: RoleProvisioner, Run: func(ctx context.Context) error {
		own, cancel := context.WithCancel(ctx)
		var beside sync.WaitGroup
		beside.Go(func() { _ = backend.run(own) }) // it returns nil
		err := served.Serve(ctx, listener)
		cancel()
		beside.Wait()
		return errors.Join(err, backend.close())
	}}, nil
}

// backend is the place where a provisioner runs workers, and its work beside requests.
type backend struct {
	provisioner.Backend
	name  string // name in metrics
	run   func(ctx context.Context) error
	close func() error
}

// backend makes the back end that server.yaml names.
func (s *Session) backend(c config.Provisioner, keys build.BuilderKeys, log *slog.Logger) (b backend, err error) {
	switch {
	case c.Kubernetes != nil:
		return s.pods(c, log)
	case c.Docker != nil:
		return s.containers(c, keys, log)
	}
	program, err := s.program()
	if err != nil {
		return b, err
	}
	local, err := provisioner.OpenLocal(provisioner.LocalConfig{Dir: s.Home.file("workers"), Program: program, Blobs: s.blobs,
		Credentials: c.Credentials, Host: c.Host, Advertise: c.Advertise, Grace: c.Grace, Linger: c.Linger, Keep: c.Keep, Log: log})
	if err != nil {
		return b, err
	}
	return backend{local, "local", local.Run, local.Close}, nil
}

// pods makes the back end whose workers are pods.
func (s *Session) pods(c config.Provisioner, log *slog.Logger) (b backend, err error) {
	if c.Kubernetes.Image == "" {
		return b, fault.New(fault.Invalid, "the workers' image is not named").
			WithHint("builder: {provisioner: {kubernetes: {image: \"REGISTRY/waybill:VERSION\"}}}   # with waybill and git in its PATH")
	}
	cluster, err := builderCluster(c.Kubernetes)
	if err != nil {
		return b, err
	}
	pods := provisioner.NewKubernetes(provisioner.KubernetesConfig{Cluster: cluster, Image: c.Kubernetes.Image,
		PullPolicy:     c.Kubernetes.PullPolicy,
		ServiceAccount: c.Kubernetes.ServiceAccount, Accounts: c.Kubernetes.Accounts, Credentials: c.Credentials,
		Grace: c.Grace, Linger: c.Linger, Log: log,
		Telemetry: provisioner.TelemetryFrom(s.place.Environment),
		Snapshots: &provisioner.Snapshots{Blobs: s.blobs, Largest: c.Largest, Log: log}})
	log.Info("workers are pods", obs.KeyURL, cluster.Host())
	return backend{pods, "kubernetes", pods.Run, func() error { return nil }}, nil
}

// containers makes the back end whose workers are containers of a Docker Engine.
func (s *Session) containers(c config.Provisioner, keys build.BuilderKeys, log *slog.Logger) (b backend, err error) {
	engine, err := docker.Open(c.Docker.Host)
	if err != nil {
		return b, fault.Wrap(fault.Invalid, err)
	}
	containers := provisioner.NewDocker(provisioner.DockerConfig{Engine: engine, Image: c.Docker.Image,
		Network: c.Docker.Network, Host: c.Host,
		Advertise: c.Advertise, Memory: c.Docker.Memory, Keys: keys,
		Snapshots: &provisioner.Snapshots{Blobs: s.blobs, Largest: c.Largest, Log: log},
		Telemetry: provisioner.TelemetryFrom(s.place.Environment), Credentials: c.Credentials, Grace: c.Grace,
		Linger: c.Linger, Keep: c.Keep, Log: log})
	return backend{containers, "docker", containers.Run, containers.Close}, nil
}

// builderCluster opens the cluster of the workers; k may be nil for that of this process.
func builderCluster(k *config.Kubernetes) (*kube.Cluster, error) {
	if k == nil {
		k = &config.Kubernetes{}
	}
	return kube.Open(kube.Config{Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace,
		Hint: "builder: {provisioner: {kubernetes: {kubeconfig: FILE}}}"})
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
		case !slices.Contains(stored.Scopes, string(service.ScopeWorker)):
			return fault.New(fault.Forbidden, "the token of %s lacks the scope %q", stored.Name, service.ScopeWorker)
		}
		return nil
	}, nil
}
