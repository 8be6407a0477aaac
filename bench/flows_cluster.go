package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// testbedFolder is the module with the API server.
const testbedFolder = "../test/testbed"

// flowCluster is an API server with the definitions of Knative and of EventFlows, in processes of the testbed.
type flowCluster struct {
	admin   *rest.Config
	client  dynamic.Interface // the administrator's
	account string            // path of the kubeconfig of the controller's account

	process *exec.Cmd
	input   io.Closer // its end ends the cluster
}

// startFlowCluster builds and starts the cluster. The argument knative has it run Knative's programs.
func startFlowCluster(ctx context.Context, folder string, args ...string) (_ *flowCluster, err error) {
	program := filepath.Join(folder, "eventcluster")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/eventcluster")
	build.Dir = testbedFolder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the cluster: %w\n%s", err, out)
	}
	c := &flowCluster{process: exec.Command(program, args...)}
	c.process.Dir, c.process.Stderr = testbedFolder, os.Stderr
	if c.input, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	if err := c.open(ctx, out); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// open makes the clients, once the cluster is ready. Its first start builds programs.
func (c *flowCluster) open(ctx context.Context, out io.Reader) error {
	ctx, cancel := context.WithTimeoutCause(ctx, flowPatience, fmt.Errorf("the cluster is not ready after %s", flowPatience))
	defer cancel()
	var path string
	ready := make(chan error, 1)
	go func() {
		_, err := fmt.Fscanln(out, &path, &c.account)
		ready <- err
		_, _ = io.Copy(io.Discard, out)
	}()
	var err error
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	if c.admin, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return err
	}
	c.admin.QPS = -1
	c.client, err = dynamic.NewForConfig(c.admin)
	return err
}

// stop ends the cluster and waits until it has gone.
func (c *flowCluster) stop() error {
	defer killLater(c.process)()
	return errors.Join(c.input.Close(), c.process.Wait())
}

// controllerPatience bounds the start and the end of a process.
const controllerPatience = time.Minute

// killLater kills a process that is to end, unless cancel is called in time.
func killLater(process *exec.Cmd) (cancel func()) {
	timer := time.AfterFunc(controllerPatience, func() { _ = process.Process.Kill() })
	return func() { timer.Stop() }
}

// flowController is a process of the role flow.
type flowController struct {
	process *exec.Cmd
	url     string
	ended   chan struct{}
}

// flowControllerOptions names the program and the folder of homes, and configures the role.
type flowControllerOptions struct {
	program, folder, kubeconfig string
	elect                       bool
}

// startFlowController starts the role flow in a process of its own, and waits until it serves its metrics.
func startFlowController(ctx context.Context, o flowControllerOptions) (*flowController, error) {
	home, err := os.MkdirTemp(o.folder, "home-")
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("flow: {kubeconfig: %s, applications: [%s], elect: %t}\n", o.kubeconfig, flowIntegration, o.elect)
	if err := os.WriteFile(filepath.Join(home, "server.yaml"), []byte(settings), 0o600); err != nil {
		return nil, err
	}
	c := &flowController{process: exec.Command(o.program, "serve", "flow", "--home", home, "--listen", "127.0.0.1:0", "--log-format", "json"),
		ended: make(chan struct{})}
	c.process.Dir = home
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := c.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	url := make(chan string, 1)
	go func() {
		defer close(c.ended)
		readFlowLog(log, url)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, controllerPatience, fmt.Errorf("the controller serves no metrics after %s", controllerPatience))
	defer cancel()
	select {
	case c.url = <-url:
	case <-ctx.Done():
		c.kill()
		return nil, context.Cause(ctx)
	}
	if c.url == "" {
		return nil, errors.Join(errors.New("the controller ended before it served its metrics"), c.process.Wait())
	}
	return c, nil
}

// kill ends the controller with SIGKILL.
func (c *flowController) kill() {
	_ = c.process.Process.Kill()
	<-c.ended
	_ = c.process.Wait() // its error is that it was killed
}

// end ends the controller as a supervisor does.
func (c *flowController) end() {
	defer killLater(c.process)()
	_ = c.process.Process.Signal(syscall.SIGTERM)
	<-c.ended
	_ = c.process.Wait()
}
