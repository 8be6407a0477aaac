package assembly

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheHomesTokenGoesToItsOwnServerOnly(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir()}
	for name, text := range map[string]string{
		"token": "wb_the-token-of-the-home\n", "address": "http://127.0.0.1:7171\n",
		"server.yaml": "server: {listen: '0.0.0.0:8080', url: 'https://waybill.example.org'}\n",
	} {
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := Place{Dir: h.Dir, Environment: func(string) string { return "" }}
	for address, own := range map[string]bool{
		"http://127.0.0.1:7171": true, "http://127.0.0.1:7171/": true, "http://127.0.0.1:8080": true,
		"http://[::1]:8080": true, "https://waybill.example.org": true,
		"http://127.0.0.1:7172": false, "http://127.0.0.1": false, "http://other:7171": false,
		"https://127.0.0.1:7171": false, "http://waybill.example.org": false,
		"http://127.0.0.1:7171@evil.example": false, "http://evil.example/127.0.0.1:7171": false, "http://203.0.113.9:8080": false,
	} {
		want := ""
		if own {
			want = "wb_the-token-of-the-home"
		}
		if got := a.homeToken(h, address); got != want {
			t.Errorf("%s gets the token %q, want %q", address, got, want)
		}
	}
}

func TestPasswordsOfStoresAreNotPrinted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://ann:secret@db/waybill":            "postgres://ann:xxxxx@db/waybill",
		"postgres://db/waybill?password=secret&a=b":   "postgres://db/waybill?a=b&password=xxxxx",
		"/srv/waybill.db":                             "/srv/waybill.db",
		"postgresql://ann@db/waybill?sslmode=require": "postgresql://ann@db/waybill?sslmode=require",
	} {
		if got := WithoutPassword(address); got != want {
			t.Errorf("%s is printed as %s, want %s", address, got, want)
		}
	}
}
