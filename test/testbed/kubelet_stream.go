package testbed

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
)

// portForward answers the API server: /portForward/NAMESPACE/POD.
func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) == 5 && parts[1] == "containerLogs" {
		k.containerLog(w, r, parts[2], parts[3], parts[4])
		return
	}
	if len(parts) != 4 || parts[1] != "portForward" {
		http.NotFound(w, r)
		return
	}
	ip := ""
	k.mutex.Lock()
	for _, p := range k.pods {
		if p.pod.Namespace == parts[2] && p.pod.Name == parts[3] {
			ip = p.ip
		}
	}
	cut, dead := k.bytes, k.dead
	k.mutex.Unlock()
	if ip == "" || dead {
		http.Error(w, "the pod does not run here", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return // answered
	}
	streams := make(chan httpstream.Stream)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		go func() {
			select {
			case streams <- s:
			case <-time.After(patience):
			}
		}()
		return nil
	})
	if connection == nil {
		return // answered
	}
	defer connection.Close()
	var failure httpstream.Stream
	for {
		select {
		case <-connection.CloseChan():
			return
		case s := <-streams:
			if s.Headers().Get("streamType") == "error" {
				failure = s
				continue
			}
			go func(failure httpstream.Stream) { // a later stream may bring another
				defer connection.Close()
				forward(s, failure, net.JoinHostPort(ip, s.Headers().Get("port")), cut)
			}(failure)
		}
	}
}

// containerLog answers what a container has printed; with follow, until the container ends.
func (k *Kubelet) containerLog(w http.ResponseWriter, r *http.Request, namespace, pod, container string) {
	var of *podRun
	k.mutex.Lock()
	for _, p := range k.pods {
		if p.pod.Namespace == namespace && p.pod.Name == pod {
			of = p
		}
	}
	k.mutex.Unlock()
	if of == nil {
		http.Error(w, "the pod does not run here", http.StatusNotFound)
		return
	}
	log, err := os.Open(filepath.Join(of.folder, container+".log"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer log.Close()
	if last, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		content, _ := io.ReadAll(log) // what there is
		lines := slices.Collect(strings.Lines(string(content)))
		_, _ = io.WriteString(w, strings.Join(lines[max(0, len(lines)-last):], "")) // the client sees the end
		return
	}
	for r.Context().Err() == nil {
		of.mutex.Lock()
		running := of.running[container] != nil
		of.mutex.Unlock()
		if _, err := io.Copy(w, log); err != nil || !running || r.URL.Query().Get("follow") != "true" {
			return
		}
		_ = http.NewResponseController(w).Flush() // the next write fails
		of.pause()
	}
}

// forward copies between a stream and a port. A cut connection ends without warning.
func forward(stream, failure httpstream.Stream, address string, cut int64) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		if failure != nil {
			_, _ = io.WriteString(failure, err.Error()) // the client sees the end too
			_ = failure.Close()
		}
		return
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream) // its end is the other direction's
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	var from io.Reader = connection
	if cut > 0 {
		from = io.LimitReader(connection, cut)
	}
	_, _ = io.Copy(stream, from)
	_ = stream.Close()
}
