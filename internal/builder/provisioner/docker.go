package provisioner

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// DockerConfig configures workers in containers of a Docker Engine. Every field must be set, unless its comment makes
// it optional.
type DockerConfig struct {
	Engine      *docker.Engine
	Image       string // has waybill and git on its path
	Network     string // in which readers are too; "": each worker's port is published at Host
	Host        string // address of the Engine's machine at which ports are published; "": 127.0.0.1
	Advertise   string // name or address by which readers reach Host; "": Host
	Memory      int64  // bytes that one worker may use, without its steps; 0: no limit
	Keys        build.BuilderKeys
	Snapshots   *Snapshots
	Telemetry   Telemetry         // those without secrets are handed on; may be nil
	Credentials map[string]string // paths of files of git-credential-store, by name; may be nil
	Grace       time.Duration     // how long a worker may take to end; 0: 10 min
	Linger      time.Duration     // how long a worker stays after its build's end; 0: 24 h
	Keep        time.Duration     // how long the container of an ended worker is kept that no reader acknowledged; 0: 7 days
	Log         *slog.Logger
}

// Labels of a worker's container. None is a secret: the nonce makes a token with the builder key alone.
const (
	dockerBuildLabel    = "dev.waybill.worker.build"
	dockerInstanceLabel = "dev.waybill.worker.instance"
	dockerProjectLabel  = "dev.waybill.worker.project"
	dockerDigestLabel   = "dev.waybill.worker.digest" // digest of the request, sealed: passwords can be guessed by an unsealed one
	dockerKeyLabel      = "dev.waybill.worker.key"    // number of the builder key
	dockerOwnerLabel    = "dev.waybill.worker.owner"  // the provisioners with the same key
	dockerNonceLabel    = "dev.waybill.worker.nonce"
	dockerSnapshotLabel = "dev.waybill.worker.snapshot" // key in the blob store of what is sent to it
)

// Paths in a worker's container.
const (
	dockerPort    = 5010
	dockerHome    = "/waybill"           // an anonymous volume, which is removed with the container
	dockerCache   = "/var/cache/waybill" // a volume that all workers share
	cacheVolume   = "waybill-build-cache"
	dockerSocket  = "/var/run/docker.sock"
	launchFile    = "launch.json"
	credentialSet = "credentials"
)

// Docker is the back end whose workers are containers of a Docker Engine, which the steps of their builds are too.
type Docker struct {
	DockerConfig
	woken  chan struct{}   // wakes Run when a worker was started or deleted
	owners []string        // what dockerOwnerLabel may be, one for each key
	swept  map[string]bool // containers of workers that have ended, whose steps have left nothing; by the goroutine of Run alone
}

var _ Backend = (*Docker)(nil)

// NewDocker returns the back end. It does not call the Engine yet.
func NewDocker(c DockerConfig) *Docker {
	c.Host = cmp.Or(c.Host, defaultHost)
	c.Grace, c.Linger, c.Keep = cmp.Or(c.Grace, defaultGrace), cmp.Or(c.Linger, defaultLinger), cmp.Or(c.Keep, defaultKeep)
	d := &Docker{DockerConfig: c, woken: make(chan struct{}, 1), swept: map[string]bool{}}
	for _, key := range c.Keys {
		d.owners = append(d.owners, seal(key, ownerText))
	}
	return d
}

// ownerText is sealed with a key to name the provisioners that have the key.
const ownerText = "owner of workers"

// seal returns a digest that cannot be computed without the key.
func seal(key build.BuilderKey, text string) string {
	sum := hmac.New(sha256.New, key.Secret)
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Close closes idle connections to the Engine. The workers run on.
func (d *Docker) Close() error { return d.Engine.Close() }

// containerName returns the name of a worker's container, by which creating it twice is refused.
func containerName(instance string, buildID int64) string {
	return fmt.Sprintf("waybill-worker-%s-%d", instance, buildID)
}

// hostName returns the name of the host that a worker runs on, by which the results of its steps are found. It fits
// into 63 bytes.
func hostName(containerName string) string {
	sum := sha256.Sum256([]byte(containerName))
	return "waybill-" + hex.EncodeToString(sum[:8])
}

// Create starts a worker, or finds the one that was started. Its container is made, then given its work as a file, then started, and
// each of these may be repeated.
func (d *Docker) Create(ctx context.Context, launch Launch) (provisionerv1.Worker, bool, error) {
	found, err := d.find(ctx, launch.Instance, launch.BuildID)
	if err != nil {
		return provisionerv1.Worker{}, false, err
	}
	if c := found; c != nil {
		switch {
		case c.labels()[dockerDigestLabel] != seal(d.keyOf(c), launch.Digest):
			return provisionerv1.Worker{}, false, errOtherRequest(launch)
		case !c.deletedAt().IsZero():
			return provisionerv1.Worker{}, false, errDeleted(launch)
		case c.began():
			return d.worker(ctx, c), false, nil
		}
		if launch, err = launch.under(d.keyOf(c).Number); err != nil {
			return provisionerv1.Worker{}, false, err
		}
	}
	files, err := d.prepare(ctx, launch)
	if err != nil {
		return provisionerv1.Worker{}, false, err
	}
	var id string
	if found != nil {
		id = found.ID
	} else if id, err = d.make(ctx, launch); err != nil {
		return provisionerv1.Worker{}, false, err
	}
	if err := d.start(ctx, id, files); err != nil {
		return provisionerv1.Worker{}, false, err
	}
	loop.Poke(d.woken)
	d.Log.Info("worker started", obs.KeyBuildID, launch.BuildID, obs.KeyWorkerID, id)
	c, err := d.inspect(ctx, id)
	if err != nil {
		return provisionerv1.Worker{}, false, err
	}
	return d.worker(ctx, c), true, nil
}

// prepare checks the worker's inputs, and returns them as files of its home.
func (d *Docker) prepare(ctx context.Context, launch Launch) (map[string][]byte, error) {
	files := map[string][]byte{}
	given := provisionerv1.Launch{CreateWorker: launch.CreateWorker, Token: launch.Token, Trace: launch.Trace}
	if sent := launch.Sent(); sent != "" {
		push, err := d.Snapshots.Describe(ctx, sent)
		if err != nil {
			return nil, err
		}
		given.Push = &push
	}
	if r := launch.Repository; r != nil {
		text, err := readCredentials(d.Credentials, r.Credential)
		if err != nil {
			return nil, err
		}
		if err := checkClone(r); err != nil {
			return nil, err
		}
		if text != nil {
			files[credentialSet], given.Credentials = text, path.Join(dockerHome, credentialSet)
		}
	}
	text, err := json.Marshal(given)
	files[launchFile] = text
	return files, err
}

// make makes the container, and pulls its image if the Engine lacks it.
func (d *Docker) make(ctx context.Context, launch Launch) (id string, err error) {
	options := d.options(launch)
	made, err := d.Engine.API().ContainerCreate(ctx, options)
	if errdefs.IsNotFound(err) {
		if pulled := d.Engine.Pull(ctx, d.Image); pulled != nil {
			return "", fault.New(fault.Unavailable, "the image of workers is not in the Docker Engine: %w", pulled).
				WithHint("docker pull %s, or another builder.provisioner.docker.image", d.Image)
		}
		made, err = d.Engine.API().ContainerCreate(ctx, options)
	}
	switch {
	case errdefs.IsConflict(err):
		return "", fault.New(fault.Conflict, "the worker of another log is called %s in this Engine: %w", options.Name, err).
			WithHint("give the logs different names in builder.instance")
	case errdefs.IsInvalidArgument(err):
		return "", fault.New(fault.Invalid, "create the container of a worker: %w", err).WithHint("look at builder.provisioner.docker")
	case err != nil:
		return "", fault.New(fault.Unavailable, "create the container of a worker: %w", err)
	}
	return made.ID, nil
}

// options describes the container of a worker.
func (d *Docker) options(launch Launch) client.ContainerCreateOptions {
	name := containerName(launch.Instance, launch.BuildID)
	port := network.MustParsePort(strconv.Itoa(dockerPort) + "/tcp")
	wait := int((d.Grace + killAfter).Seconds())
	key, _ := d.Keys.Numbered(launch.Key) // the server has made the token of it
	host := &container.HostConfig{
		Mounts: []mount.Mount{
			{Type: mount.TypeVolume, Target: dockerHome, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
			{Type: mount.TypeVolume, Source: cacheVolume, Target: dockerCache, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
			{Type: mount.TypeBind, Source: d.Engine.Socket(), Target: dockerSocket},
		},
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "1"}},
		Resources: container.Resources{Memory: d.Memory, MemorySwap: d.Memory},
	}
	if d.Network != "" {
		host.NetworkMode = container.NetworkMode(d.Network)
	} else {
		at, _ := netip.ParseAddr(d.Host) // checked when it was read
		host.PortBindings = network.PortMap{port: {{HostIP: at, HostPort: ""}}}
	}
	return client.ContainerCreateOptions{Name: name, HostConfig: host, Config: &container.Config{
		Image: d.Image, Hostname: hostName(name), User: "0:0", WorkingDir: dockerHome, StopTimeout: &wait,
		ExposedPorts: network.PortSet{port: {}},
		Env: append([]string{"HOME=" + dockerHome, "TMPDIR=" + dockerHome, "DOCKER_HOST=unix://" + dockerSocket},
			d.Telemetry.public()...),
		Entrypoint: []string{"waybill"},
		Cmd: []string{"run", "--launch", path.Join(dockerHome, launchFile), "--runner", "docker", "--results-dir",
			path.Join(dockerHome, resultsDir),
			"--cache-dir", dockerCache, "--listen", fmt.Sprintf("0.0.0.0:%d", dockerPort), "--linger", d.Linger.String(),
			"--termination-grace", d.Grace.String()},
		Labels: map[string]string{dockerBuildLabel: strconv.FormatInt(launch.BuildID, 10),
			dockerInstanceLabel: launch.Instance, dockerProjectLabel: launch.Project,
			dockerDigestLabel: seal(key, launch.Digest), dockerKeyLabel: strconv.Itoa(launch.Key),
			dockerOwnerLabel: seal(key, ownerText), dockerNonceLabel: launch.Nonce, dockerSnapshotLabel: launch.Sent()},
	}}
}

// keyOf returns the key that a worker's token is made of.
func (d *Docker) keyOf(c *workerContainer) build.BuilderKey {
	number, _ := strconv.Atoi(c.labels()[dockerKeyLabel]) // no key has the number 0
	key, _ := d.Keys.Numbered(number)
	return key
}

// start gives a container its files and starts it. One that cannot be started is removed: the image is not one of Waybill.
func (d *Docker) start(ctx context.Context, id string, files map[string][]byte) error {
	content, err := packFiles(files)
	if err != nil {
		return err
	}
	api := d.Engine.API()
	if _, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: content}); err != nil {
		return fault.New(fault.Unavailable, "give a worker its work: %w", err)
	}
	_, err = api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	switch {
	case err == nil:
		return nil
	case errdefs.IsInvalidArgument(err), errdefs.IsNotFound(err):
		_, gone := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return errors.Join(fault.New(fault.Invalid, "start a worker of image %s: %w", d.Image, err).
			WithHint("the image needs waybill on its path"), gone)
	}
	return fault.New(fault.Unavailable, "start a worker: %w", err)
}

// packFiles returns a tar with files of a worker's home, which only root can read.
func packFiles(files map[string][]byte) (*bytes.Reader, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for name, text := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dockerHome[1:], name), Mode: 0o600,
			Size: int64(len(text)), ModTime: time.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(text); err != nil {
			return nil, err
		}
	}
	return bytes.NewReader(out.Bytes()), archive.Close()
}
