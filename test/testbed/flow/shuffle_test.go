//go:build services

package flow_test

import (
	"context"
	"encoding/pem"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// shuffler holds requests and lets them pass one at a time, by chance.
type shuffler struct {
	held chan chan struct{} // closed to let a request pass
	next http.RoundTripper
}

// shuffled starts a proxy of the API server that holds each write on its way there and its answer on the way back. It returns a
// kubeconfig that leads there, with the identity of the given one.
func (s *site) shuffled(kubeconfig string) string {
	s.t.Helper()
	target, err := url.Parse(s.Config.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	anonymous := rest.AnonymousClientConfig(s.Config)
	next, err := rest.TransportFor(anonymous)
	if err != nil {
		s.t.Fatal(err)
	}
	proxy := &shuffler{held: make(chan chan struct{}), next: next}
	server := httptest.NewTLSServer( // clients send no token without TLS
		&httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     proxy,
			FlushInterval: -1, // watches
		})
	s.t.Cleanup(server.Close) // controllers end before
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	go proxy.run(ctx)

	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		s.t.Fatal(err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = server.URL, authority
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (p *shuffler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return p.next.RoundTrip(r)
	}
	if err := p.wait(r.Context()); err != nil {
		return nil, err
	}
	response, err := p.next.RoundTrip(r)
	if err == nil {
		_ = p.wait(r.Context()) // the write is done, whether its sender waits or not
	}
	return response, err
}

func (p *shuffler) wait(ctx context.Context) error {
	pass := make(chan struct{})
	select {
	case p.held <- pass:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-pass:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run lets one of the held requests pass whenever no other has come for a moment.
func (p *shuffler) run(ctx context.Context) {
	var waiting []chan struct{}
	for {
		var quiet <-chan time.Time
		if len(waiting) > 0 {
			quiet = time.After(5 * time.Millisecond)
		}
		select {
		case pass := <-p.held:
			waiting = append(waiting, pass)
		case <-quiet:
			i := rand.IntN(len(waiting))
			close(waiting[i])
			waiting = slices.Delete(waiting, i, i+1)
		case <-ctx.Done():
			return
		}
	}
}
