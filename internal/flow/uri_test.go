package flow_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/flow"
)

func TestURIsThatCanBeSinks(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"http://host", "https://host.example:8443/p?q=r", "HTTP://HOST/", "http://10.0.0.1/", "http://192.168.1.1", "http://[fd00::1]:80/",
		"http://[2001:db8::7f00:1]/", "http://8.8.8.8", "http://0x08080808/", "http://host./", "http://localhost.example/", "http://mylocalhost/",
		"http://127.0.0.1.example.com/", "http://a_b/", "http://xn--bcher-kva.example/", "http://host/http://localhost/", "http://host?u=http://127.0.0.1",
		"http://[64:ff9b::808:808]/", "http://broker-ingress.knative-eventing.svc.cluster.local/shop/default", "http://0xyz/", "http://1a/",
	} {
		if err := flow.CheckURI(uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

func TestURIsThatCannotBeSinks(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"scheme":          {"", "host", "/path", "ftp://host", "file:///etc/passwd", "mailto:a@b", "//host/p"},
		"host is missing": {"http://", "http:///p", "http:host", "https://:80/", "http://?q"},
		"user":            {"http://u@host/", "http://u:s3cret@host/", "http://@host/"},
		"not a valid": {"http://ho st/", "http://[::1", "http://a/%zz?s3cret", "http://host:s3cret@x:y/", " http://host", "http://h\x00/", "http://[v1.a]/", "http://[localhost]/",
			"http://[127.0.0.1]/"},
		"port": {"http://host:0/", "http://host:65536/", "http://host:99999999999/"},

		"ASCII": {"http://ｌｏｃａｌｈｏｓｔ/", "http://①②⑦.0.0.1/", "http://bücher.example/", "http://127。0。0。1/",
			"http://localho%E2%93%A2t/"},
		"machine itself": {"http://localhost", "http://LOCALHOST:80/?s3cret", "http://localhost./", "http://localhost../", "http://a.localhost/",
			"http://A.LocalHost./", "http://localhost.localdomain/", "http://ip6-localhost/", "http://ip6-loopback/", "http://localhost6/"},
		"loopback": {"http://127.0.0.1/", "http://127.255.255.254/", "http://127.0.0.1./", "http://127.1/", "http://127.0.1/", "http://2130706433/",
			"http://0x7f000001/", "http://0X7F000001/", "http://0x7f.1/", "http://017700000001/", "http://0177.0.0.1/", "http://0177.0x0.0.01/",
			"http://[::1]/", "http://[0:0:0:0:0:0:0:1]:80/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/",
			"http://[::ffff:0:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[::1%25lo]/", "http://127.0.0.01/",
			"http://0127.0.0.1/"},
		"unspecified": {"http://0.0.0.0/", "http://0/", "http://0x0/", "http://00/", "http://[::]/", "http://[::ffff:0.0.0.0]/", "http://0.0/",
			"http://0x/", "http://[::%25eth0]/"},
		"link-local": {"http://169.254.169.254/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://[fe80::1]/",
			"http://[fe80::1%25eth0]/", "http://[::ffff:169.254.1.1]/", "http://[febf::1]/", "http://169.16689662/", "http://[ff02::1]/",
			"http://224.0.0.1/"},
		"neither a name": {"http://256.0.0.1/", "http://1.2.3.4.5/", "http://127.0.0.256/", "http://a.1/", "http://4294967296/", "http://./",
			"http://1..2/", "http://0x100000000/", "http://08.9.0.1.2/", "http://a.0x1/"},
	}
	for want, uris := range tests {
		for _, uri := range uris {
			err := flow.CheckURI(uri)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q: %v, want %q", uri, err, want)
			}
		}
	}
}

// TestAddressIsJudgedAlikeHoweverItIsWritten writes addresses in the forms that inet_aton reads.
func TestAddressIsJudgedAlikeHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]byte{127, 0, 169, 8, 10, 128, 224}).Draw(t, "first")
		b := [4]byte{first, rapid.SampledFrom([]byte{0, 254, 1}).Draw(t, "second"), rapid.Byte().Draw(t, "third"), rapid.Byte().Draw(t, "fourth")}
		local := b[0] == 127 || b == [4]byte{} || b[0] == 169 && b[1] == 254 || b[0] == 224 && b[1] == 0 && b[2] == 0
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		var host []string
		for i := range parts {
			value := uint64(b[i])
			if i == parts-1 {
				for _, rest := range b[i+1:] {
					value = value<<8 | uint64(rest)
				}
			}
			host = append(host, fmt.Sprintf(rapid.SampledFrom([]string{"%d", "0x%x", "0x%08X", "0X%x"}).Draw(t, "form"), value))
		}
		written := strings.Join(host, ".") + rapid.SampledFrom([]string{"", "."}).Draw(t, "dot")
		hosts := []string{written, "[" + netip.AddrFrom16(netip.AddrFrom4(b).As16()).String() + "]"}
		for _, one := range hosts {
			if err := flow.CheckURI("http://" + one + "/"); (err != nil) != local {
				t.Fatalf("%s, which is %v: %v", one, b, err)
			}
		}
	})
}

func FuzzCheckURI(f *testing.F) {
	for _, uri := range []string{"http://host", "http://[::1%25a]", "http://0x.0x", "http://a:b@c", "http://%61"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if err := flow.CheckURI(uri); err != nil && len(err.Error()) > len(uri)+100 {
			t.Errorf("the error of %q is %q", uri, err)
		}
	})
}
