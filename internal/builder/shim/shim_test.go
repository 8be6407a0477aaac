package shim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/shim"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/kube/runner"
	"github.com/waybill-dev/waybill/internal/mask"
)

const token = "the pod's"

var errCut = errors.New("the connection was cut")

// TestAStepFromWorkspaceToRelease goes the way of every step, over whole connections.
func TestAStepFromWorkspaceToRelease(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	file, digest := snapshot(t)
	p.init(t)
	client := p.client()
	if err := errors.Join(upload(t, client, file), client.Unpack(t.Context(), digest), p.wait(t)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(p.Folder, shimv1.Program)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the shim is %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(p.Repo, "large")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("a file is %v, %v", info, err)
	}
	p.serve(t)
	client = p.client()
	if code, err := p.exec(t,
		`./link; echo oops >&2; mkdir out; echo made > out/a; ln -s a out/b; ln -s /etc/passwd out/c; env | grep SHIM; exit 3`,
		shimv1.EnvGrace+"=1s"); code != 3 || err != nil {
		t.Fatalf("exit status %d, %v", code, err)
	}
	s := &sink{}
	log := runner.NewLog(s, nil)
	defer log.Close()
	if n := follow(t, client, log); n != 1 || log.Trailer().Code != 3 {
		t.Errorf("%d connections, %+v", n, log.Trailer())
	}
	if got := s.out.String(); got != "ran\ne:oops\n" && got != "e:oops\nran\n" {
		t.Errorf("the log is %q", got)
	}
	dir := t.TempDir()
	if _, err := client.Files(t.Context(), "file", []string{"out/*", "none"}, filepath.Join(dir, "files")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Files(t.Context(), "part", []string{"out", "sub"}, filepath.Join(dir, "part")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"files/out/a": "made\n", "files/out/b": "made\n", "part/out/a": "made\n",
		"part/sub/run": "#!/bin/sh\necho ran\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"files/out/b": "a", "files/out/c": "/etc/passwd", "part/out/b": "a"} { // never the file outside
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != want {
			t.Errorf("%s leads to %q, %v; want %q", name, target, err, want)
		}
	}
	if err := errors.Join(client.Release(t.Context()), p.wait(t)); err != nil {
		t.Error(err)
	}
}

// TestACutUploadResumes: whatever the connection takes, the workspace arrives whole, and no byte is sent again that has arrived.
func TestACutUploadResumes(t *testing.T) {
	t.Parallel()
	file, digest := snapshot(t)
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{300, 1_000, 4_099, 30_000} {
		p := newPod(t)
		p.init(t)
		client, tries := p.cutClient(1<<30, size), 0
		for err = errCut; err != nil; tries++ {
			if tries > 10_000 {
				t.Fatalf("after %d bytes each, the upload makes no progress: %v", size, err)
			}
			err = upload(t, client, file)
		}
		if size < int(info.Size()) && tries < int(info.Size())/size {
			t.Errorf("%d connections of %d bytes took %d bytes", tries, size, info.Size())
		}
		if err := errors.Join(client.Unpack(t.Context(), digest), p.wait(t)); err != nil {
			t.Error(err)
		}
	}
}

// TestASnapshotOfOtherFilesIsRefused: a step never runs on files that differ from those that were taken.
func TestASnapshotOfOtherFilesIsRefused(t *testing.T) {
	t.Parallel()
	file, digest := snapshot(t)
	for name, wrong := range map[string]string{"another digest": strings.Repeat("0", 64), "no digest": ""} {
		p := newPod(t)
		p.init(t)
		client := p.client()
		if err := upload(t, client, file); err != nil {
			t.Fatal(err)
		}
		if err := client.Unpack(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "digest") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	p := newPod(t)
	p.init(t)
	cut, err := os.Create(filepath.Join(t.TempDir(), "cut"))
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	if _, err := io.CopyN(cut, io.NewSectionReader(file, 0, 1<<30), 5_000); err != nil {
		t.Fatal(err)
	}
	client := p.client()
	if err := upload(t, client, cut); err != nil {
		t.Fatal(err)
	}
	if err := client.Unpack(t.Context(), digest); err == nil {
		t.Error("a part of a workspace was taken for the whole")
	}
}

// TestTheLogIsWholeWhereverItIsCut: connections end after every number of bytes, and the log is the same.
func TestTheLogIsWholeWhereverItIsCut(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if err := os.WriteFile(filepath.Join(p.Folder, "alive"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, err := p.exec(t,
		`i=0; while [ $i -lt 300 ]; do echo "line $i of the log"; i=$((i+1)); done; printf 'a\000b\r\nlast'; head -c 40000 /dev/zero | tr '\0' x; echo; printf 'no end'`)
	if code != 0 || err != nil {
		t.Fatalf("exit status %d, %v", code, err)
	}
	p.serve(t)
	whole := &sink{}
	log := runner.NewLog(whole, nil)
	follow(t, p.client(), log)
	log.Close()
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "line %d of the log\n", i)
	}
	want.WriteString("a\x00b\r\nlast" + strings.Repeat("x", 40_000) + "\nno end")
	if whole.out.String() != want.String() {
		t.Fatalf("over one connection the log is %q", whole.out.String())
	}
	for _, size := range []int{211, 300, 997, 4_096, 10_007, 32_768, 47_111} { // an answer's head has about 170 bytes
		cut := &sink{}
		log := runner.NewLog(cut, nil)
		client := p.cutClient(size, 1<<30)
		follow(t, client, log)
		log.Close()
		if cut.out.String() != want.String() {
			t.Fatalf("cut after %d bytes the log differs", size)
		}
	}
}

// TestSecretsNeverReachTheSpool: values of variables and of mounted files are masked where they are printed.
func TestSecretsNeverReachTheSpool(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	mounted := t.TempDir()
	for file, content := range map[string]string{filepath.Join(p.Folder, "alive"): "", filepath.Join(mounted, "key"): "mounted-secret\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(mounted, "..data"), 0o700); err != nil { // as kubelet makes it
		t.Fatal(err)
	}
	code, err := shim.Exec(childtest.Context(t), p.Config, []string{"/bin/sh"}, []string{
		"TOKEN=variable-secret", shimv1.EnvSecrets + "=TOKEN,OTHER", shimv1.EnvMounted + "=" + mounted,
		shimv1.EnvCommands + "=echo $TOKEN; cat " + mounted + "/key; tr '\\0' ' ' < /proc/$$/cmdline",
	})
	if code != 0 || err != nil {
		t.Fatalf("exit status %d, %v", code, err)
	}
	raw, err := os.ReadFile(filepath.Join(p.Folder, "output"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"variable-secret", "mounted-secret", "echo $TOKEN"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the spool has %q: %q", secret, raw)
		}
	}
	p.serve(t)
	s := &sink{}
	log := runner.NewLog(s, mask.NewSet("/bin/sh"))
	defer log.Close()
	follow(t, p.client(), log)
	if !strings.HasPrefix(s.out.String(), "***\n***\n*** ") {
		t.Errorf("the log is %q", s.out.String())
	}
}

// TestTheWorkerEndsAStep: stopping gives the program its grace, and its last output arrives.
func TestTheWorkerEndsAStep(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if err := os.WriteFile(filepath.Join(p.Folder, "alive"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.serve(t)
	client, s := p.client(), &sink{seen: map[string]chan struct{}{"begun": make(chan struct{})}}
	log := runner.NewLog(s, nil)
	defer log.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		follow(t, client, log)
	}()
	go func() {
		select {
		case <-s.seen["begun"]:
		case <-t.Context().Done():
			return
		}
		if err := errors.Join(client.Alive(t.Context()), client.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	code, err := p.exec(t, `trap 'echo asked; exit 7' TERM; echo begun; while :; do :; done`, shimv1.EnvGrace+"=1m")
	if code != 7 || err != nil {
		t.Errorf("exit status %d, %v", code, err)
	}
	<-read
	if s.out.String() != "begun\nasked\n" {
		t.Errorf("the log is %q", s.out.String())
	}
}

// TestAnEndedContainerIsNamed: the end of a container ends its program too, which may make 0 of that.
func TestAnEndedContainerIsNamed(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"the program ends": false, "the container is ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t)
			if err := os.WriteFile(filepath.Join(p.Folder, "alive"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.serve(t)
			s := &sink{seen: map[string]chan struct{}{"begun": make(chan struct{})}}
			log := runner.NewLog(s, nil)
			defer log.Close()
			read := make(chan struct{})
			go func() {
				defer close(read)
				follow(t, p.client(), log)
			}()
			ctx, end := context.WithCancel(childtest.Context(t))
			defer end()
			script := "echo begun"
			if ended {
				script = `trap "exit 0" TERM; echo begun; while :; do sleep 0.05; done`
				go func() {
					select {
					case <-s.seen["begun"]:
					case <-t.Context().Done():
					}
					end()
				}()
			}
			code, err := shim.Exec(ctx, p.Config, []string{"/bin/sh", "-c", script}, []string{"PATH=" + os.Getenv("PATH")})
			if code != 0 || err != nil {
				t.Errorf("exit status %d, %v", code, err)
			}
			<-read
			if got := log.Trailer(); got == nil || got.Ended != ended {
				t.Errorf("it ended with %+v", got)
			}
		})
	}
}

// TestASilentWorkerEndsAStep: nothing runs for a computer that was closed.
func TestASilentWorkerEndsAStep(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	alive := filepath.Join(p.Folder, "alive")
	if err := os.WriteFile(alive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour) // the image was pulled in the meantime
	if err := os.Chtimes(alive, long, long); err != nil {
		t.Fatal(err)
	}
	if code, err := p.exec(t, `exit 4`); code != 4 || err != nil {
		t.Errorf("after an hour in which the worker could not reach it: exit status %d, %v", code, err)
	}
	if err := os.Remove(filepath.Join(p.Folder, "output")); err != nil {
		t.Fatal(err)
	}
	const politely = `trap "exit 0" TERM; while :; do sleep 0.05; done` // its status is that of a step that completed
	if code, err := p.exec(t, politely, shimv1.EnvSilence+"=100ms"); err == nil || !strings.Contains(err.Error(), "silent for 100ms") {
		t.Errorf("after longer than allowed: exit status %d, %v", code, err)
	}
	p.serve(t)
	s := &sink{}
	log := runner.NewLog(s, nil)
	defer log.Close()
	follow(t, p.client(), log)
	if len(s.notes) != 1 || !strings.Contains(s.notes[0], "silent for 100ms") {
		t.Errorf("the notes are %q", s.notes)
	}
	if end := log.Trailer(); end == nil || !strings.Contains(end.Fault, "silent for 100ms") || end.OfStep {
		t.Errorf("it ended with %+v", end)
	}
}

// TestShimsOfASilentWorkerEnd also when their step has ended.
func TestShimsOfASilentWorkerEnd(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.Silence = time.Millisecond
	p.serve(t)
	if err := p.wait(t); err == nil || !strings.Contains(err.Error(), "silent for 1ms") {
		t.Errorf("got %v", err)
	}
	p.init(t)
	if err := p.wait(t); err == nil || !strings.Contains(err.Error(), "silent for 1ms") {
		t.Errorf("got %v", err)
	}
}

// TestAStepWaitsForItsServices and fails, with the service's name, when one does not listen.
func TestAStepWaitsForItsServices(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if err := os.WriteFile(filepath.Join(p.Folder, "alive"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	services := func(port, seconds int) string {
		return fmt.Sprintf(`%s=[{"name":"db","ports":[%d],"seconds":%d}]`, shimv1.EnvServices, port, seconds)
	}
	if code, err := p.exec(t, `exit 5`, services(port, 60)); code != 5 || err != nil {
		t.Errorf("exit status %d, %v", code, err)
	}
	listener.Close()
	if err := os.Remove(filepath.Join(p.Folder, "output")); err != nil {
		t.Fatal(err)
	}
	port = silentPort(t)
	_, err = p.exec(t, `exit 5`, services(port, 1))
	if want := fmt.Sprintf("service db did not listen at port %d within 1s", port); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	p.serve(t)
	s := &sink{}
	log := runner.NewLog(s, nil)
	defer log.Close()
	follow(t, p.client(), log)
	if end := log.Trailer(); !end.OfStep || end.Fault == "" {
		t.Errorf("the end is %+v, want the step's own fault", end)
	}
}

// TestAnAbsentProgramFailsTheStep rather than the cluster.
func TestAnAbsentProgramFailsTheStep(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if err := os.WriteFile(filepath.Join(p.Folder, "alive"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := shim.Exec(childtest.Context(t), p.Config, []string{"/bin/absent"}, nil)
	if _, ok := errors.AsType[*build.StepError](err); !ok {
		t.Errorf("got %v, want a StepError", err)
	}
}

// TestShimsRefuseOtherTokens also when there is none.
func TestShimsRefuseOtherTokens(t *testing.T) {
	t.Parallel()
	for _, own := range []string{token, ""} {
		p := newPod(t)
		p.Token = own
		p.serve(t)
		for _, given := range []string{"", "another"} {
			client := runner.NewClient(given, func(ctx context.Context) (net.Conn, error) {
				var dialer net.Dialer
				return dialer.DialContext(ctx, "tcp", p.address)
			})
			if _, err := client.Output(t.Context(), 0, false); err == nil || !strings.Contains(err.Error(), "token") {
				t.Errorf("token %q, given %q: got %v", own, given, err)
			}
		}
	}
}
