package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// onPipes runs a server with a handler in the bubble of a test. dial opens a connection to it.
func onPipes(t *testing.T, handler http.HandlerFunc) (dial func() net.Conn) {
	t.Helper()
	dial, _ = onPipesUntil(t, handler)
	return dial
}

// onPipesUntil does the same, and returns a function that ends the server.
func onPipesUntil(t *testing.T, handler http.HandlerFunc) (dial func() net.Conn, stop func()) {
	t.Helper()
	listener := bubbletest.Listen()
	s := New(&service.Service{}, Options{Token: "wb_the-token-of-the-home"})
	s.listener, s.access.next = listener, handler
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = func() { cancel(errors.New("the test is over")) }
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return listener.Dial, stop
}

// cutAfter writes a request and returns when the server has closed the connection.
func cutAfter(t *testing.T, conn net.Conn, request string) time.Duration {
	t.Helper()
	began := time.Now()
	go func() { _, _ = io.WriteString(conn, request) }()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(began)
}

func TestABodyThatNeverComesEndsItsConnection(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		within  time.Duration
	}{
		"without a token": {
			"POST /api/v1/actions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer no\r\nContent-Length: 200000\r\n\r\nx", time.Second},
		"health":               {"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\nx", bodyPatience + time.Minute},
		"a handler that reads": {"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\nx", bodyPatience + time.Minute},
		"chunks that never come": {"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
			bodyPatience + time.Minute},
		"login": {"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 20000\r\n\r\nx", bodyPatience + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				dial := onPipes(t, func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					if err == nil {
						t.Error("the body was read whole")
					}
					w.WriteHeader(http.StatusBadRequest)
				})
				if took := cutAfter(t, dial(), test.request); took > test.within {
					t.Errorf("the connection was open for %s, want at most %s", took, test.within)
				}
			})
		})
	}
}

func TestABodyThatDripsEndsItsConnection(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		dial := onPipes(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
		})
		conn, began := dial(), time.Now()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, err := io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n")
		for err == nil {
			<-time.After(time.Second) // a second of the bubble
			_, err = io.WriteString(conn, "x")
		}
		if took := time.Since(began); took > 2*bodyPatience {
			t.Errorf("a byte a second kept the connection open for %s", took)
		}
	})
}

func TestAnUploadMayTakeHoursAndAFollowerDays(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const size = 200 << 20
		dial := onPipes(t, func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil || n != size {
				t.Errorf("read %d bytes of %d: %v", n, size, err)
			}
			select {
			case <-r.Context().Done():
				t.Error("the client was taken for gone")
			case <-time.After(72 * time.Hour):
			}
			_, _ = io.WriteString(w, "done")
		})
		conn := dial()
		go func() {
			_, _ = io.WriteString(conn, "PUT /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 209715200\r\nConnection: close\r\n\r\n")
			piece := strings.Repeat("x", 20<<10)
			for range size / len(piece) {
				<-time.After(time.Second) // a second of the bubble
				_, _ = io.WriteString(conn, piece)
			}
		}()
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "done" {
			t.Errorf("answered %q, %v", text, err)
		}
	})
}

// TestASearchThatIsNotReadGivesItsPlaceBack: the answers of clients that read nothing end after a while.
func TestASearchThatIsNotReadGivesItsPlaceBack(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := New(&service.Service{}, Options{})
		dial := onPipes(t, func(w http.ResponseWriter, r *http.Request) {
			err := s.sendMatches(w, r, func(_ context.Context, each func(buildview.LogEntry) error) (string, error) {
				if r.URL.Path == "/one" {
					return "", each(buildview.LogEntry{Message: "found"})
				}
				for {
					if err := each(buildview.LogEntry{Message: "found"}); err != nil {
						return "", err
					}
				}
			})
			if err != nil {
				WriteProblem(w, r, err)
			}
		})
		ask := func(path string) net.Conn {
			conn := dial()
			if _, err := io.WriteString(conn, "GET "+path+
				" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return conn
		}
		status := func() int {
			response, err := http.ReadResponse(bufio.NewReader(ask("/one")), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode
		}
		for range mostSearches {
			ask("/many")
		}
		synctest.Wait()
		if got := status(); got != http.StatusServiceUnavailable {
			t.Errorf("beside %d searches: %d", mostSearches, got)
		}
		<-time.After(buildview.LongestSearch + matchPatience) // of the bubble
		synctest.Wait()
		if got := status(); got != http.StatusOK {
			t.Errorf("after the patience with their clients: %d", got)
		}
	})
}

// TestALoginWithoutItsBodyIsRefused: the body of a form ends early, or is too large.
func TestALoginWithoutItsBodyIsRefused(t *testing.T) {
	for request, want := range map[string]string{
		"Content-Length: 20\r\n\r\ntoken=x":                           "400 Bad Request",
		"Content-Length: 70000\r\n\r\n" + strings.Repeat("x", 70_000): "413 Request Entity Too Large",
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n":                    "400 Bad Request",
	} {
		bubbletest.Test(t, func(t *testing.T) {
			conn := onPipes(t, func(http.ResponseWriter, *http.Request) {})()
			go func() {
				_, _ = io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"+request)
			}()
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.Status != want {
				t.Errorf("%.40q: %s, want %s", request, response.Status, want)
			}
		})
	}
}

// TestAnUploadThatIsNotTheServersFaultSaysSo: it stalls, or the process ends during it.
func TestAnUploadThatIsNotTheServersFaultSaysSo(t *testing.T) {
	type input struct{ Content operation.Content }
	for name, test := range map[string]struct {
		ends  bool
		want  int
		paths []string
	}{
		"stalls":           {false, http.StatusRequestTimeout, []string{"/operation", "/file", "/input/shop"}},
		"the process ends": {true, http.StatusServiceUnavailable, []string{"/operation", "/file"}},
	} {
		for _, path := range test.paths {
			t.Run(name+path, func(t *testing.T) {
				bubbletest.Test(t, func(t *testing.T) {
					blobs, err := blob.OpenDir(t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					mux := http.NewServeMux()
					a := newAPI(nil)
					a.huma = humago.New(mux, huma.DefaultConfig("test", "1"))
					a.huma.UseMiddleware(a.admit)
					handle(a, operation.Operation[input, operation.Nothing]{ID: "store", Method: http.MethodPut, Path: "/operation"},
						func(ctx context.Context, in *input) (n operation.Nothing, err error) {
							_, _, _, err = blobs.Put(ctx, "a", in.Content)
							return n, err
						})
					handleBuild(buildRoutes{mux, a.huma}, operation.Operation[operation.Nothing, operation.Nothing]{ID: "keep", Method: http.MethodPut,
						Path: "/file"}, func(_ http.ResponseWriter, r *http.Request) error {
						_, _, _, err := blobs.Put(r.Context(), "b", r.Body)
						return err
					}, nil)
					handle(a, operation.Operation[operation.PlanInput, operation.Nothing]{ID: "plan", Method: http.MethodPut, Path: "/input/{pipeline}"},
						func(context.Context, *operation.PlanInput) (n operation.Nothing, err error) { return n, nil })
					dial, stop := onPipesUntil(t, mux.ServeHTTP)
					conn := dial()
					go func() {
						_, _ = io.WriteString(conn, "PUT "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\nx")
						if test.ends {
							synctest.Wait()
							stop()
							synctest.Wait()
							_, _ = io.WriteString(conn, "x")
						}
					}()
					response, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer response.Body.Close()
					answer, _ := io.ReadAll(response.Body)
					if response.StatusCode != test.want {
						t.Errorf("%s, want %d: %s", response.Status, test.want, answer)
					}
				})
			})
		}
	}
}
