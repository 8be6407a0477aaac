package testbed

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/test/testbed/binary"
	"github.com/waybill-dev/waybill/test/testbed/controlgroup"
)

// Addresses in the network of a cluster with a node. Services are in 10.96.0.0/16.
const (
	nodeAddress = "10.200.0.1"
	podRange    = "10.200.1.0/24"
)

// Node starts a cluster with a real node for the test: the control plane with Kubernetes' own controllers and scheduler, and Debian's
// containerd and runc with kubelet and kube-proxy. It needs root, and about ten seconds. The cluster has a network of its own, and the
// node namespaces for processes and mounts too; all of it ends when the processes that hold the namespaces do.
//
// Pods reach each other, Services by their addresses, and what listens at an address of Listen. They have neither DNS nor a way out of
// the cluster, and nothing enforces a NetworkPolicy.
func Node(t testing.TB) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("testbed: a node needs root: it makes namespaces and control groups")
	}
	for name, pkg := range map[string]string{"containerd": "containerd", "ctr": "containerd", "runc": "runc",
		"iptables": "iptables", "ip": "iproute2"} {
		systemProgram(t, name, pkg)
	}
	if _, err := os.Stat(pluginFolder); err != nil {
		t.Fatalf("testbed: %v: apt-get install containernetworking-plugins", err)
	}
	folder, err := os.MkdirTemp("", "kn") // sockets have short paths
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	groups := controlgroup.Prefix + filepath.Base(os.TempDir()) + filepath.Base(folder) // cmd/testbed knows its temporary folder
	t.Cleanup(func() {
		if err := errors.Join(controlgroup.Remove(groups), os.RemoveAll(folder)); err != nil {
			t.Errorf("testbed: clean up after the node: %v", err)
		}
	})
	kube, busybox := program(t, binary.Kube()), systemProgram(t, "busybox", "busybox-static")
	c := &Cluster{folder: folder}
	c.startNetwork(t, busybox)
	c.startServer(t, kube, "http://127.0.0.1:2379", "http://127.0.0.1:2380", nodeAddress+":6443")
	for _, component := range [][]string{
		{"kube-controller-manager", "--use-service-account-credentials",
			"--service-account-private-key-file=" + filepath.Join(folder, "accounts.key"),
			"--root-ca-file=" + c.Config.CAFile, "--controllers=*,-nodeipam"},
		{"kube-scheduler"},
	} {
		s := &service{name: component[0], dir: folder, died: c.fail, argv: c.Inside(append(append([]string{kube}, component...),
			"--kubeconfig="+c.Kubeconfig, "--authentication-kubeconfig="+c.Kubeconfig, "--authorization-kubeconfig="+c.Kubeconfig,
			"--leader-elect=false", "--profiling=false", "--bind-address=127.0.0.1")...)}
		s.manage(t)
	}
	c.startMachine(t, kube, groups)
	c.load(t, pauseImage, "", busyboxImage(t, busybox), "/bin/busybox", "sleep", "2147483647")
	return c
}

const (
	pauseImage   = "local/pause:1" // holds the namespaces of a pod
	pluginFolder = "/usr/lib/cni"
)

// startNetwork starts a process that holds the cluster's network.
func (c *Cluster) startNetwork(t testing.TB, busybox string) {
	t.Helper()
	done := filepath.Join(c.folder, "network-is-up")
	script := "set -e; ip link set lo up; ip address add " + nodeAddress +
		"/32 dev lo; ip route add 10.96.0.0/16 dev lo; echo 1 > /proc/sys/net/ipv4/ip_forward; " +
		": > " + done + "; exec " + busybox + " sleep 2147483647"
	network := &service{
		name: "network", dir: c.folder, died: c.fail,
		argv:  []string{"unshare", "--net", "--", "sh", "-c", script},
		ready: func(context.Context) error { _, err := os.Stat(done); return err },
	}
	network.manage(t)
	c.network = network
}

// startMachine starts a process that holds the namespaces of the node, and in them its programs.
func (c *Cluster) startMachine(t testing.TB, kube, groups string) {
	t.Helper()
	c.configure(t, groups)
	script := fmt.Sprintf(`set -e
		cd %[1]s
		mkdir -p lib log
		mount --make-rshared /
		mount --bind lib /var/lib
		mount --bind log /var/log
		mount -t tmpfs tmpfs /run
		containerd --config %[1]s/containerd.toml --log-level warn >> containerd.log 2>&1 &
		%[2]s kube-proxy --kubeconfig=%[3]s --hostname-override=%[4]s --proxy-mode=iptables --cluster-cidr=%[5]s \
			--conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 >> kube-proxy.log 2>&1 &
		until ctr version > ctr.log 2>&1; do sleep 0.1; done
		%[2]s kubelet --config=%[1]s/kubelet.yaml --kubeconfig=%[1]s/node.kubeconfig --hostname-override=%[4]s --node-ip=%[6]s
		exit $?`, c.folder, kube, c.Kubeconfig, nodeName, podRange, nodeAddress)
	c.machine = &service{
		name: "kubelet", dir: c.folder, died: c.fail,
		argv:  c.Inside("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", script),
		ready: c.nodeReady,
	}
	c.machine.manage(t)
}

func (c *Cluster) nodeReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the node is not ready")
}

// configure writes what the node's programs read, and makes the control groups of its pods.
func (c *Cluster) configure(t testing.TB, groups string) {
	t.Helper()
	failed := clientcmd.WriteToFile(c.kubeconfig(nodeToken), filepath.Join(c.folder, "node.kubeconfig"))
	for name, content := range map[string]string{
		"containerd.toml":      fmt.Sprintf(containerdConfig, pauseImage, pluginFolder, filepath.Join(c.folder, "cni")),
		"cni/10-pods.conflist": fmt.Sprintf(podNetwork, podRange),
		"kubelet.yaml":         fmt.Sprintf(kubeletConfig, groups, nodeAddress),
	} {
		path := filepath.Join(c.folder, name)
		failed = errors.Join(failed, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
	}
	if failed = errors.Join(failed, controlgroup.Make(groups)); failed != nil {
		t.Fatalf("testbed: configure the node: %v", failed)
	}
}

// containerdConfig does without the right to raise priorities, which containers of build machines lack.
const containerdConfig = `version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/%s"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%s"
    conf_dir = "%s"
`

// podNetwork gives every pod a wire of its own to the node, which routes.
const podNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
	{"type": "ptp", "ipam": {"type": "host-local", "subnet": "%s", "routes": [{"dst": "0.0.0.0/0"}]}}
]}`

// kubeletConfig has a kubelet that anyone in the cluster's network may ask.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%[1]s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: %[2]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [%[2]s]
failSwapOn: false
maxOpenFiles: 20000
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%, nodefs.inodesFree: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`

// ImportBusybox makes an image on the node that has busybox under the names of its programs, which run as a user: ana,
// who has no rights, or as root if it is "".
func (c *Cluster) ImportBusybox(t testing.TB, name, user string) {
	t.Helper()
	c.load(t, name, user, busyboxImage(t, systemProgram(t, "busybox", "busybox-static")), "/bin/sh")
}

// ImportWorkers makes the image of workers on the node, with further files by their path.
func (c *Cluster) ImportWorkers(t testing.TB, name, waybill string, files map[string][]byte) {
	t.Helper()
	c.load(t, name, "", workerImage(t, waybill, files), "waybill")
}

// load makes an image on the node of a tar with its files.
func (c *Cluster) load(t testing.TB, name, user string, layer []byte, command ...string) {
	t.Helper()
	path := filepath.Join(c.folder, "image.tar")
	if err := os.WriteFile(path, imageArchive(t, name, user, layer, command), 0o600); err != nil {
		t.Fatalf("testbed: import %s: %v", name, err)
	}
	defer os.Remove(path)
	argv := c.OnNode("ctr", "-n", "k8s.io", "images", "import", path)
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("testbed: import %s: %v\n%s", name, err, out)
	}
}

// OnNode returns the arguments with which a program runs on the node, with its files, processes and network.
func (c *Cluster) OnNode(argv ...string) []string {
	namespaces := fmt.Sprintf("/proc/%d/ns/", c.machine.processID())
	return append([]string{"nsenter", "--net=" + namespaces + "net", "--mount=" + namespaces + "mnt",
		"--pid=" + namespaces + "pid_for_children", "--"}, argv...)
}

// imageArchive returns an image of one layer, as docker save writes it.
func imageArchive(t testing.TB, name, user string, layer []byte, command []string) []byte {
	t.Helper()
	config := map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": command, "User": user, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}
	reference := name
	switch registry, _, found := strings.Cut(name, "/"); {
	case !found:
		reference = "docker.io/library/" + name
	case !strings.Contains(registry, "."):
		reference = "docker.io/" + name
	}
	manifest := []any{map[string]any{"Config": "config.json", "RepoTags": []string{reference}, "Layers": []string{"layer.tar"}}}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	add := func(name string, content []byte) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]any{"config.json": config, "manifest.json": manifest} {
		content, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		add(name, content)
	}
	add("layer.tar", layer)
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// KillNode kills the node with all that runs on it, without warning.
func (c *Cluster) KillNode(t testing.TB) {
	t.Helper()
	c.machine.kill(t)
}

// StartNode starts the node again after KillNode, with the same images.
func (c *Cluster) StartNode(t testing.TB) {
	t.Helper()
	c.machine.start(t)
}
