//go:build linux && services

package faults_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
)

// front is a proxy of the provisioner whose lists name proxies of the workers, so that connections to both can be cut.
type front struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	doors map[string]net.Listener // by the address of a worker
	links map[net.Conn]bool
}

func newFront(t *testing.T, provisioner string) *front {
	t.Helper()
	f := &front{t: t, doors: map[string]net.Listener{}, links: map[net.Conn]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: provisioner})
	proxy.ModifyResponse = f.rename
	proxy.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) }
	f.Server = httptest.NewServer(proxy)
	t.Cleanup(func() {
		f.Close()
		f.mu.Lock()
		for _, door := range f.doors {
			_ = door.Close()
		}
		f.mu.Unlock()
		f.cut()
	})
	return f
}

// rename puts the proxies' addresses into a list of workers.
func (f *front) rename(r *http.Response) error {
	if r.Request.Method != http.MethodGet || r.StatusCode != http.StatusOK {
		return nil
	}
	var list provisionerv1.WorkerList
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		return err
	}
	for i := range list.Workers {
		if address, ok := strings.CutPrefix(list.Workers[i].Address, "http://"); ok {
			door, err := f.door(address)
			if err != nil {
				return err
			}
			list.Workers[i].Address = "http://" + door
		}
	}
	text, err := json.Marshal(list)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return err
}

// door returns the address of a worker's proxy.
func (f *front) door(worker string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doors[worker] == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		f.doors[worker] = listener
		go f.accept(listener, worker)
	}
	return f.doors[worker].Addr().String(), nil
}

func (f *front) accept(listener net.Listener, worker string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go f.link(client, worker)
	}
}

// link copies both ways until either side or cut closes.
func (f *front) link(client net.Conn, worker string) {
	defer client.Close()
	server, err := net.Dial("tcp", worker)
	if err != nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	f.links[client] = true
	f.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	f.mu.Lock()
	delete(f.links, client)
	f.mu.Unlock()
}

// cut closes every connection with workers.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for link := range f.links {
		_ = link.Close()
	}
}
