// Package osbclient has a client of the Open Service Broker API that others wrote drive the real program, through whole lives
// of service instances. It is a module of its own, so that Waybill does not depend on that client.
package osbclient_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	osb "github.com/kubernetes-sigs/go-open-service-broker-client/v2"
)

// bound limits each wait of a test.
const bound = 2 * time.Minute

const serverYAML = `
handlers:
  make: {type: shell, parameters: {service: {type: object}, size: {type: integer, default: 1}}, command: {argv: [sh, work.sh, made]}}
  change: {type: shell, parameters: {service: {type: object}, size: {type: integer, default: 1}}, command: {argv: [sh, work.sh, changed]}}
  remove: {type: shell, parameters: {service: {type: object}}, command: {argv: [sh, work.sh, removed]}}
broker:
  catalog: catalog.yaml
  listen: 127.0.0.1:0
  tombstone: %s
  users:
    shop: {passwords: ["%x"]}
    other: {passwords: ["%x"]}
`

const catalogYAML = `
services:
  - id: folder
    name: folder
    description: A folder
    tags: [files]
    bindable: true
    plan_updateable: true
    metadata: {displayName: Folder}
    plans:
      - &small
        id: small
        name: small
        description: A small folder
        handlers: {provision: make, update: change, deprovision: remove}
        credentials: {path: /folders, size: "${parameters.size}"}
        schemas:
          service_instance:
            create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", type: object, properties: {size: {type: integer}}, additionalProperties: false}}
      - {id: large, name: large, description: A large folder, bindable: false, handlers: {provision: make, update: change, deprovision: remove}}
`

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: %q}}]
users: [{name: it, user: {token: secret}}]
`

// workSH writes its parameters into the folder of the program. It waits while a service instance has a pipe, and fails
// for one that is broken.
const workSH = `set -eu
given=$(cat)
id=$(printf '%s\n' "$given" | sed -n 's/.*"instance_id":"\([A-Za-z0-9-]*\)".*/\1/p')
if [ -p "pipe-$id" ]; then cat "pipe-$id"; fi
case $id in broken*) echo 'the disk is full' >&2; exit 78 ;; esac
printf '%s\n' "$given" >"given-$id-$1"
echo "$1 $id" >"$WAYBILL_OUTPUT"
`

// program is a running waybill with a service broker.
type program struct {
	path, folder, url string
}

// start runs waybill in a folder of its own until the test ends. The end of a deletion is reported for the time tombstone.
func start(t *testing.T, tombstone string) *program {
	t.Helper()
	return startWith(t, tombstone, "")
}

// startWith runs waybill as start does, with flows in the cluster at an address; "": without flows.
func startWith(t *testing.T, tombstone, cluster string) *program {
	t.Helper()
	server, catalog := fmt.Sprintf(serverYAML, tombstone, sha256.Sum256([]byte("secret")), sha256.Sum256([]byte("geheim"))), catalogYAML
	if cluster != "" {
		server, catalog = server+"flow: {kubeconfig: k.yaml, elect: false}\n", catalog+flowCatalog
	}
	p := &program{folder: t.TempDir()}
	p.path = build(t, p.folder)
	for name, content := range map[string]string{"catalog.yaml": catalog, "work.sh": workSH, "server.yaml": server,
		"k.yaml": fmt.Sprintf(kubeconfig, cluster)} {
		check(t, os.WriteFile(filepath.Join(p.folder, name), []byte(content), 0o600))
	}
	up := p.command(t, "up", "--config", "server.yaml", "--listen", "127.0.0.1:0")
	log, err := up.StderrPipe()
	check(t, err)
	check(t, up.Start())
	address, all := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(all)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Component, URL string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Component == "broker" && line.URL != "" {
				address <- line.URL
			}
		}
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		<-all
		if err := up.Wait(); err != nil {
			t.Errorf("waybill up: %v", err)
		}
	})
	select {
	case p.url = <-address:
	case <-all:
		t.Fatal("waybill up has ended without a broker")
	}
	p.url = p.url[:len(p.url)-len("/v2")]
	return p
}

// build returns the path of the program of the whole run, or builds one.
func build(t *testing.T, folder string) string {
	t.Helper()
	if path := os.Getenv("WAYBILL_TEST_PROGRAM"); path != "" {
		return path
	}
	path := filepath.Join(folder, "waybill")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/waybill")
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build waybill: %v\n%s", err, out)
	}
	return path
}

// command returns a command of waybill in the program's folder, which ends within bound.
func (p *program) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, p.path, args...)
	command.Dir = p.folder
	command.Env = append(os.Environ(), "WAYBILL_HOME="+filepath.Join(p.folder, ".waybill"))
	return command
}

// client returns a client of a user of the broker.
func (p *program) client(t *testing.T, user, password string, change ...func(*osb.ClientConfiguration)) osb.Client {
	t.Helper()
	c := osb.DefaultClientConfiguration()
	c.URL = p.url
	c.AuthConfig = &osb.AuthConfig{BasicAuthConfig: &osb.BasicAuthConfig{Username: user, Password: password}}
	for _, change := range change {
		change(c)
	}
	client, err := osb.NewClient(c)
	check(t, err)
	return client
}

// given returns the parameters with which a handler did its work.
func (p *program) given(t *testing.T, id, work string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.folder, "given-"+id+"-"+work))
	check(t, err)
	return string(content)
}

// hold has handlers wait for a service instance until release is called, which waits for one that waits.
func (p *program) hold(t *testing.T, id string) (release func()) {
	t.Helper()
	pipe := filepath.Join(p.folder, "pipe-"+id)
	check(t, syscall.Mkfifo(pipe, 0o600))
	return func() {
		t.Helper()
		writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		check(t, err)
		check(t, os.Remove(pipe)) // the next one does not wait
		check(t, writer.Close())
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
