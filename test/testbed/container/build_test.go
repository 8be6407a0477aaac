//go:build services

package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/agreement"
)

// TestDocker runs builds in one Engine, side by side.
func TestDocker(t *testing.T) {
	t.Parallel()
	engine := testbed.Docker(t)
	for name, test := range map[string]func(*testing.T, *testbed.Engine){
		"ABuildAsPeopleWriteIt": aBuildAsPeopleWriteIt, "SameResults": sameResults, "OutputIsExact": outputIsExact,
		"BrokenConnection": brokenConnection,
		"Cancel":           cancel, "KilledWorker": killedWorker, "Images": images, "Secrets": secrets, "UserWithoutRights": userWithoutRights,
		"ImageOfAStep": imageOfAStep, "Services": services, "UnreadyServices": unreadyServices, "Limits": limits,
		"RemovedContainer": removedContainer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}

const six = `prepare:
  tool:
    artifacts: [bin/tool, {path: "gen/**", name: gen.tgz, archive: true}]
    container: {image: BUSYBOX, cmds: [set -e, "mkdir bin gen; echo 'echo from the tool' > bin/tool; chmod +x bin/tool; echo x > gen/a; ln -s a gen/b"]}
test:
  unit:
    needs: [prepare/tool]
    test-results: {junit: ["out/*.xml"]}
    cache: [{key: "deps-${hash:deps.txt}", paths: [.cache]}]
    container:
      image: BUSYBOX
      cmds: [set -e, bin/tool, "cat gen/b", "mkdir -p out .cache; cp .cache/deps out/ || { echo no cache; cp deps.txt .cache/deps; }", "cp report.xml out/unit.xml"]
  flaky:
    retry: {attempts: 2, backoff: 1ms}
    container: {image: BUSYBOX, cmds: ["echo attempt $WAYBILL_ATTEMPT; test $WAYBILL_ATTEMPT = 2"]}
  where:
    container: {image: BUSYBOX, cmds: ["pwd; ls; echo $CI $WAYBILL_STAGE/$WAYBILL_STEP $GIT_CONFIG_VALUE_0; echo oops >&2; touch left-behind"]}
`

func aBuildAsPeopleWriteIt(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": six, "deps.txt": "dep 1\n",
		"report.xml": `<testsuite name="shop"><testcase name="a"/><testcase name="b"><failure message="bad"/></testcase></testsuite>`})
	o := p.want(0)
	o.mustHave(t, "runner docker (Engine ", "test/unit | from the tool", "test/unit | x", "no cache",
		"test/flaky | attempt 1", "test/flaky | attempt 2",
		"test/where | /mnt/repo", "test/where | deps.txt", "true test/where /mnt/repo", "1 of 2 tests failed", "saved")
	if text, _ := printed(t, o.results, 4, true); string(text) != "oops\n" {
		t.Errorf("standard error: %q", text)
	}
	o = p.want(0)
	if strings.Contains(o.out, "no cache") {
		t.Errorf("nothing came from the cache\n%s", o.out)
	}
	for _, name := range []string{"out", "left-behind", "bin"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			t.Errorf("%s was left in the folder", name)
		}
	}
	if left := p.left(ofBuild(o.id)); len(left) > 0 {
		t.Errorf("left in the Engine: %q", left)
	}
}

// sameResults as those of the other runners.
func sameResults(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, agreement.Files(testbed.Busybox))
	o := p.want(0, "--environment", "docker")
	agreement.Check(t, o.results, true)
	agreement.CheckRaw(t, waybill(t), o.results)
}

// counted prints n lines of about a hundred bytes, each another.
func counted(n int) string {
	return fmt.Sprintf(`awk 'BEGIN{for(i=1;i<=%d;i++) print \"line\", i, \"%s\"}'`, n, filler)
}

const filler = "of a build that prints a lot, with a hundred bytes in each line, as real builds do ........"

func countedLines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d %s\n", i+1, filler)
	}
	return b.Bytes()
}

// Programs whose output is compared byte for byte. No line of the first is like another.
const (
	long   = `head -c 1048576 /dev/zero | tr '\\0' x; echo; seq 1 3; head -c 16384 /dev/zero | tr '\\0' y; echo; printf 'no end'`
	binary = `head -c 700000 /bin/busybox; printf '\\r\\n\\0\\377\\n'; head -c 90000 /bin/busybox >&2`
)

func outputIsExact(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": fmt.Sprintf(`out:
  million: {container: {image: BUSYBOX, cmds: ["%s"]}}
  long: {container: {image: BUSYBOX, cmds: ["%s"]}}
  binary: {container: {image: BUSYBOX, cmds: ["%s"]}}
  none: {container: {image: BUSYBOX, cmds: ["true"]}}
`, counted(1_000_000), long, binary)})
	o := p.want(0)
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range map[int][]byte{
		1: countedLines(1_000_000),
		2: []byte(strings.Repeat("x", 1<<20) + "\n1\n2\n3\n" + strings.Repeat("y", 16<<10) + "\nno end\n"),
		3: lines(append(busybox[:700000:700000], "\r\n\x00\xff\n"...)),
		4: nil,
	} {
		wantPrinted(t, o.results, step, false, want)
	}
	wantPrinted(t, o.results, 3, true, lines(append(busybox[:90000:90000], '\n')))
}

// lines returns bytes as a log of lines gives them back: a carriage return before a newline belongs to the line's end, and so does the
// end of the output.
func lines(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }

func wantPrinted(t *testing.T, folder string, step int, stderr bool, want []byte) {
	t.Helper()
	got, digest := printed(t, folder, step, stderr)
	sum := sha256.Sum256(want)
	if digest == hex.EncodeToString(sum[:]) {
		return
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	t.Errorf("step %d: %d bytes, want %d; they differ from byte %d: %.80q, want %.80q", step, len(got), len(want), same,
		got[same:], want[same:])
}

// brokenConnection cuts the connection that carries the output: at its beginning, in the middle and just before its end.
func brokenConnection(t *testing.T, engine *testbed.Engine) {
	const count = 150_000
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": fmt.Sprintf(`out:
  many: {container: {image: BUSYBOX, cmds: ["echo begin >&2; %s; echo end >&2"]}}
`, counted(count))})
	var through *proxy
	p.host, through = newProxy(t, engine.Socket)
	want := countedLines(count)
	for _, after := range []int64{1, int64(len(want)) / 2, int64(len(want)) - 100_000} {
		through.cutAfter(after + 20_000) // the Engine's other answers are shorter
		o := p.want(0)
		wantPrinted(t, o.results, 1, false, want)
		wantPrinted(t, o.results, 1, true, []byte("begin\nend\n"))
		if left := p.left(ofBuild(o.id)); len(left) > 0 {
			t.Errorf("left in the Engine: %q", left)
		}
		if through.cutAfter(0) != 0 {
			t.Errorf("the connection was not cut after %d bytes", after)
		}
	}
}

const polite = `work:
  polite: {container: {image: BUSYBOX, cmds: ["trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done"]}}
  plain: {container: {image: BUSYBOX, cmds: ["sleep 1000"]}}
  deaf: {container: {image: BUSYBOX, cmds: ["trap '' TERM; while :; do sleep 0.1; done"]}}
`

// cancel: Ctrl-C ends containers politely, and then not.
func cancel(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": polite})
	run, out, folder := p.start("--grace", "20s", "--max-parallel", "3")
	await(t, "three containers run", func() bool {
		text, _ := os.ReadFile(filepath.Join(folder, "steps", "1", "output.log"))
		return bytes.Contains(text, []byte("ready")) && p.running() == 3
	})
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // the status says it
	if code := run.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d, want 130\n%s", code, out)
	}
	if text, _ := printed(t, folder, 1, false); string(text) != "ready\nbye\n" {
		t.Errorf("printed %q", text)
	}
	if left := p.left(ofBuild(p.id())); len(left) > 0 {
		t.Errorf("left in the Engine: %q", left)
	}
}

// killedWorker: what a worker leaves that was killed is removed when the user's next build starts, and not what others have.
func killedWorker(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": polite,
		"quick.yml": "a:\n  b: {container: {image: BUSYBOX, cmds: [echo done]}}\n"})
	run, _, _ := p.start("--max-parallel", "3")
	await(t, "three containers run", func() bool { return p.running() == 3 })
	other := newProject(t, engine, map[string]string{".wharf-ci.yml": polite})
	otherRun, _, _ := other.start("--max-parallel", "3", "--grace", "0s")
	await(t, "those of another user run", func() bool { return other.running() == 3 })

	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	killed := ofBuild(p.id())
	p.want(0, "--file", "quick.yml")
	if left := p.left(killed); len(left) > 0 {
		t.Errorf("left of the killed worker: %q", left)
	}
	if left := other.left(ofBuild(other.id())); len(left) != 6 { // containers with a volume each
		t.Errorf("of the other user's build: %q, want 3 containers and 3 volumes", left)
	}
	if err := otherRun.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = otherRun.Wait() // canceled
}

func images(t *testing.T, engine *testbed.Engine) {
	pulled, private := engine.Registry(t, "", ""), engine.Registry(t, "ana", "pass:word")
	p := newProject(t, engine, map[string]string{
		"pull.yml": "a:\n  b: {container: {image: \"" + pulled + "\", cmds: [echo done]}}\n",
		"absent.yml": "a:\n  b: {retry: {attempts: 2, on: [infrastructure], backoff: 1ms}, container: {image: \"" +
			pulled + "5\", cmds: [echo done]}}\n",
		"private.yml": "a:\n  b: {container: {image: \"" + private + "\", cmds: [echo done]}}\n",
		"away.yml": "a:\n  b: {retry: {attempts: 2, on: [infrastructure], backoff: 1ms}, container: {image: " +
			"\"127.0.0.1:9/app:1\", cmds: [echo done]}}\n",
		".wharf-ci.yml": "a:\n  b: {retry: {attempts: 2, on: [infrastructure], backoff: 1ms}, container: {image: " +
			"\"local/absent:2\", cmds: [echo done]}}\n",
		"bad.yml":   "a:\n  b: {container: {image: \"Not An Image\", cmds: [echo done]}}\n",
		"shell.yml": "a:\n  b: {container: {image: BUSYBOX, shell: /bin/fish, cmds: [echo done]}}\n",
	})
	p.want(1, "--pull", "never").mustHave(t, "image local/absent:2 is not in the Docker Engine, and --pull never forbids to pull it")
	p.want(2, "--file", "bad.yml").mustHave(t, `bad.yml:2:3: a/b: "Not An Image" is not the name of an image`)
	p.want(1, "--file", "shell.yml").mustHave(t, "/bin/fish")

	p.want(1, "--file", "pull.yml", "--pull", "never")
	p.want(2, "--file", "pull.yml", "--pull", "never", "--dry-run=server").
		mustHave(t, "pull.yml:2:3: a/b: image "+pulled+" is not in the Docker Engine")
	p.want(0, "--file", "pull.yml", "--dry-run=server").mustHave(t, "runner docker (Engine ", "  image "+pulled+" would be pulled")
	p.want(0, "--file", "shell.yml", "--dry-run=server").mustHave(t, "  image "+testbed.Busybox+" is in the Engine")
	p.want(0, "--file", "pull.yml").mustHave(t, "a/b | done", "pull "+pulled, "pulled "+pulled+" in ")
	if o := p.want(0, "--file", "pull.yml"); strings.Contains(o.out, "pulled") {
		t.Errorf("an image that is there was pulled\n%s", o.out)
	}
	p.want(0, "--file", "pull.yml", "--pull", "always").mustHave(t, "pulled "+pulled)
	if o := p.want(1, "--file", "absent.yml"); !strings.Contains(o.out, "image "+pulled+"5 cannot be pulled") ||
		strings.Contains(o.out, "attempt 2") {
		t.Errorf("an image that does not exist\n%s", o.out)
	}
	p.want(1, "--file", "private.yml").mustHave(t, "image "+private+" cannot be pulled")
	config := filepath.Join(p.home, ".docker", "config.json")
	login := fmt.Sprintf(`{"auths": {%q: {"auth": "YW5hOnBhc3M6d29yZA=="}}}`, strings.TrimSuffix(private, "/app:1"))
	if err := errors.Join(os.Mkdir(filepath.Dir(config), 0o700), os.WriteFile(config, []byte(login), 0o600)); err != nil {
		t.Fatal(err)
	}
	p.want(0, "--file", "private.yml").mustHave(t, "a/b | done")
	p.want(1, "--file", "away.yml").mustHave(t, "pull image 127.0.0.1:9/app:1", "attempt 2 of 2")
}

// TestEngineThatDies: a step whose Engine was killed with everything in it has failed by infrastructure, and the build ends.
func TestEngineThatDies(t *testing.T) {
	t.Parallel()
	engine := testbed.Docker(t)
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": "a:\n  b: {container: {image: BUSYBOX, cmds: [echo begun, sleep 1000]}}\n"})
	run, out, folder := p.start()
	await(t, "the step has begun", func() bool {
		text, _ := os.ReadFile(filepath.Join(folder, "steps", "1", "output.log"))
		return bytes.Contains(text, []byte("begun"))
	})
	engine.Kill(t)
	engine.Start(t)
	_ = run.Wait() // the status says it
	if code := run.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want 1\n%s", code, out)
	}
	wantPrinted(t, folder, 1, false, []byte("begun\n"))
	if left := p.left(ofBuild(p.id())); len(left) > 0 {
		t.Errorf("left in the Engine: %q\n%s", left, out)
	}
}

// secrets: what the Engine shows of a container does not have the commands with passwords.
func secrets(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{".wharf-ci.yml": `inputs: [{name: word, type: password}]
a:
  b:
    secrets: [TOKEN]
    container: {image: BUSYBOX, cmds: ["echo ${word} $TOKEN; cat /proc/1/cmdline | tr '\\0' ' '"]}
`})
	p.env = append(p.env, "WAYBILL_SECRET_TOKEN=s3cr3t-token")
	o := p.want(0, "-i", "word=s3cr3t-word")
	if strings.Contains(o.out, "s3cr3t") {
		t.Errorf("a secret was printed\n%s", o.out)
	}
	o.mustHave(t, "a/b | *** ***", "/mnt/waybill-commands")
	secretsOfAProject(t, engine)
}

// secretsOfAProject: what is a Secret in a cluster comes from files here; what a cluster mounts is refused before anything starts, unless
// flags name files for it, which the step then has where it would have them in a cluster.
func secretsOfAProject(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{
		".wharf-ci.yml": "a:\n  b: {secrets: [TOKEN], container: {image: BUSYBOX, secretName: npm, cmds: [\"echo $TOKEN " +
			"$NPM_KEY; echo $TOKEN $NPM_KEY | tr s S\"]}}\n",
		"mounts.yml": "a:\n  b: {container: {image: BUSYBOX, certificatesMountPath: /certificates, cmds: [\"true\"]}}\n" +
			"  c: {kubectl: {file: m.yml}}\n  d: {container: {image: BUSYBOX, serviceAccount: x, cmds: [\"true\"]}}\n",
		"given.yml": "environments: {e: {where: dev}}\na:\n" +
			"  b: {container: {image: BUSYBOX, certificatesMountPath: /certs, cmds: [\"cd $WAYBILL_CERTIFICATES; ls; cat *\"]}}\n" +
			"  c: {kubectl: {file: m.yml}}\n",
		"server.yaml": "builder: {tools: {kubectl: \"" + programImage(t, engine, "kubectl",
			"echo \"$@\"; cat $KUBECONFIG m.yml") + "\"}}\n", "m.yml": "m: dev\n", "certificates/one.pem": "an authority\n",
		"kube.yml": "apiVersion: v1\nkind: Config\n" +
			"contexts: [{name: dev, context: {cluster: dev, user: u}}, {name: prod, context: {cluster: prod, user: u}}]\n" +
			"clusters: [{name: dev, cluster: {server: \"https://127.0.0.1:6443\"}}, {name: prod, cluster: {server: " +
			"\"https://prod.example.net\"}}]\nusers: [{name: u, user: {token: t}}]\n"})
	for name, content := range map[string]string{"default.env": "TOKEN=s3cr3t-token\n", "npm.env": "NPM_KEY=s3cr3t-npm\n"} {
		if err := os.WriteFile(filepath.Join(p.home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.want(0, "--project-id", "7", "--secrets", p.home).mustHave(t, "a/b | *** ***", "a/b | S3cr3t-token S3cr3t-npm")
	p.want(2, "--file", "mounts.yml").mustHave(t, "mounts.yml:2:3: a/b: the step wants the certificates of the cluster", "--certificates DIR",
		"mounts.yml:3:3: a/c: the step works in the cluster kubectl-config", "mounts.yml:4:3: a/d: the step runs as an account of a cluster")
	p.want(2, "--file", "mounts.yml", "--dry-run=server").mustHave(t, "mounts.yml:3:3: a/c: the step works in the cluster kubectl-config")
	o := p.want(0, "--file", "given.yml", "--certificates", filepath.Join(p.dir, "certificates"), "--cluster",
		"kubectl-config="+filepath.Join(p.dir, "kube.yml")+"#dev",
		"--config", filepath.Join(p.dir, "server.yaml"))
	o.mustHave(t, "a/b | one.pem", "a/b | an authority", "a/c | apply --filename m.yml", "a/c | current-context: dev",
		"a/c | m: dev", "--cluster kubectl-config: https://127.0.0.1:6443 is this computer")
	if strings.Contains(o.out, "prod.example.net") {
		t.Errorf("the step has another context too\n%s", o.out)
	}
}

// userWithoutRights: a step whose image has a user other than root can write its workspace.
func userWithoutRights(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{"sub/file": "old\n", ".wharf-ci.yml": strings.ReplaceAll(`a:
  b:
    artifacts: [new, sub/file]
    container: {image: USER, cmds: [set -e, id -u, echo x > new, echo y > sub/file]}
`, "USER", testbed.BusyboxUser)})
	p.want(0).mustHave(t, "a/b | 1000", "artifact new", "artifact sub/file")
}

// builder is in place of BuildKit: it makes an image of one file, as docker load reads it.
const builder = `set -e
for a in "$@"; do case $a in type=docker*) dest=${a##*dest=} ;; esac; done
grep -o YW5hOnBhc3M6d29yZA== $DOCKER_CONFIG/config.json
mkdir /tmp/layer /tmp/image; cp "$(pwd)/made" /tmp/layer; tar -C /tmp/layer -cf /tmp/image/layer.tar made
id=$(sha256sum /tmp/image/layer.tar | cut -d' ' -f1)
echo '{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:'$id'"]}}' > /tmp/image/config.json
echo '[{"Config":"config.json","RepoTags":["reg.example.net/shop/app:1","reg.example.net/shop/app:latest"],"Layers":["layer.tar"]}]' > /tmp/image/manifest.json
tar -C /tmp/image -cf "$dest" manifest.json config.json layer.tar`

// imageOfAStep: an image that is not pushed is in the Engine after the step. The builder has the credentials of the user, and nothing of
// them is left.
func imageOfAStep(t *testing.T, engine *testbed.Engine) {
	p := newProject(t, engine, map[string]string{"made": "content\n", "Dockerfile": "FROM scratch\n",
		".wharf-ci.yml": "a:\n  b: {docker: {file: Dockerfile, tag: \"1,latest\", destination: reg.example.net/shop/app, push: false}}\n",
		"server.yaml":   "builder: {tools: {buildkit: \"" + programImage(t, engine, "buildctl-daemonless.sh", builder) + "\"}}\n"})
	config := filepath.Join(p.home, ".docker", "config.json")
	login := []byte(`{"auths": {"reg.example.net": {"auth": "YW5hOnBhc3M6d29yZA=="}}}`)
	if err := errors.Join(os.Mkdir(filepath.Dir(config), 0o700), os.WriteFile(config, login, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.want(0, "--config", filepath.Join(p.dir, "server.yaml")).
		mustHave(t, "a/b | YW5hOnBhc3M6d29yZA==", "image reg.example.net/shop/app:1 is in the Engine")
	for _, name := range []string{"reg.example.net/shop/app:1", "reg.example.net/shop/app:latest"} {
		if _, err := engine.Client.ImageInspect(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// programImage returns an image of busybox that has one program more, a script of the shell.
func programImage(t *testing.T, engine *testbed.Engine, name, script string) string {
	t.Helper()
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	script = "#!/bin/sh\n" + script + "\n"
	err := errors.Join(archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755, Size: int64(len(script))}))
	if _, writeErr := archive.Write([]byte(script)); err != nil || writeErr != nil || archive.Close() != nil {
		t.Fatal(err, writeErr)
	}
	made, err := engine.Client.ContainerCreate(t.Context(),
		client.ContainerCreateOptions{Config: &container.Config{Image: testbed.Busybox, Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := engine.Client.ContainerRemove(context.WithoutCancel(t.Context()), made.ID,
			client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	if _, err := engine.Client.CopyToContainer(t.Context(), made.ID,
		client.CopyToContainerOptions{DestinationPath: "/", Content: &files}); err != nil {
		t.Fatal(err)
	}
	image := "local/" + name + ":1"
	if _, err := engine.Client.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{Reference: image}); err != nil {
		t.Fatal(err)
	}
	return image
}
