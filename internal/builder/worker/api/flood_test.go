package api_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waybill-dev/waybill/internal/build"
)

// askWithoutReading sends so many requests over one connection whose flow control lets no answer through, and returns
// when each has got its header.
func (s *served) askWithoutReading(path string, requests int) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	_, err = io.WriteString(c, http2.ClientPreface)
	must(err)
	framer := http2.NewFramer(c, c)
	must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for i := range requests {
		block.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "worker"}, {Name: ":path", Value: path}} {
			must(fields.WriteField(f))
		}
		must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(),
			EndStream: true, EndHeaders: true}))
	}
	for answered := 0; answered < requests; {
		frame, err := framer.ReadFrame()
		must(err)
		switch frame.Header().Type {
		case http2.FrameHeaders:
			answered++
		case http2.FrameRSTStream, http2.FrameGoAway:
			s.t.Fatalf("the server answered %v", frame)
		}
	}
}

// TestWithoutTheTokenNoPlaceIsTaken of a reader that has it, however many send requests and read nothing. Health is
// answered beside them.
func TestWithoutTheTokenNoPlaceIsTaken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.update(0, build.Running)
	for range 6 {
		s.askWithoutReading("/metrics", 16)
		s.askWithoutReading("/nothing", 16)
	}
	if status, text, _ := s.get("/api/build/step", "", "Authorization", "Bearer "+token); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, text)
	}
	if status, text, _ := s.get("/healthz", ""); status != http.StatusOK {
		t.Errorf("health: %d %s", status, text)
	}
	if status, text, h := s.get("/metrics", ""); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("metrics: %d %.100s", status, text)
	}
}

// TestAConnectionHasFewStreams: unread answers to a reader without the token take memory for each.
func TestAConnectionHasFewStreams(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	framer := http2.NewFramer(c, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", frame, err)
	}
	if most, _ := settings.Value(http2.SettingMaxConcurrentStreams); most != 16 {
		t.Errorf("%d streams, want 16", most)
	}
}

// TestWithoutTheTokenNoBodyIsWaitedFor: a connection whose body never comes would be held for good.
func TestWithoutTheTokenNoBodyIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for head, want := range map[string]int{
		"POST " + acknowledgePath + " HTTP/1.1\r\nContent-Type: application/json\r\n": http.StatusUnauthorized,
		"GET /healthz HTTP/1.1\r\n": http.StatusOK,
		"GET /readyz HTTP/1.1\r\n":  http.StatusOK,
		"GET /metrics HTTP/1.1\r\n": http.StatusOK,
	} {
		for _, body := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, head+"Host: worker\r\n"+body+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("%q, %s: %v", head, body, err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != want || !answer.Close {
				t.Errorf("%q, %s: %s, %v; want %d and the end of the connection", head, body, answer.Status, err, want)
			}
			_ = answer.Body.Close()
		}
	}
}
