package promoter

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// Private clusters of many networks have one address. Each is reached through a proxy of its own, or by its name in TLS.
func TestClustersAreTheSameIfTheirServersAre(t *testing.T) {
	t.Parallel()
	proxy := func(host string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: "socks5", Host: host})
	}
	at := func(host, name string) *rest.Config {
		return &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{Insecure: true, ServerName: name}}
	}
	by := func(host string) *rest.Config { return &rest.Config{Host: "https://eu", Proxy: proxy(host)} }
	for name, c := range map[string]struct {
		a, b *rest.Config
		want bool
	}{
		"one address":   {at("https://EU:443/", ""), at("eu", "eu"), true},
		"other ports":   {at("https://eu:443", ""), at("https://eu:6443", ""), false},
		"other paths":   {at("https://eu/a", ""), at("https://eu/b", ""), false},
		"other names":   {at("https://eu", "a"), at("https://eu", "b"), false},
		"one proxy":     {by("a"), by("a"), true},
		"other proxies": {by("a"), by("b"), false},
		"a proxy":       {by("a"), at("https://eu", ""), false},
		"none":          {nil, at("https://eu", ""), false},
	} {
		if got := serverOf(c.a) == serverOf(c.b); got != c.want {
			t.Errorf("%s: %t, %q and %q", name, got, serverOf(c.a), serverOf(c.b))
		}
	}
}
