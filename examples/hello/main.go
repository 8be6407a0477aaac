// Command hello is a small web service that says which revision it is.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// greeting is what visitors read. Change it, ship again, and every host says the new one.
const greeting = "Hello"

// identity is the answer of /version.
type identity struct {
	Greeting string `json:"greeting"`
	Host     string `json:"host"`
	Revision string `json:"revision"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	host := flag.String("host", "localhost", "name of this host")
	revision := flag.String("revision", "unknown", "revision that this release was built from")
	flag.Parse()
	if err := serve(*listen, identity{Greeting: greeting, Host: *host, Revision: *revision}); err != nil {
		log.Fatal(err)
	}
}

// serve answers until a signal asks it to stop, then finishes the requests that are in progress.
func serve(address string, who identity) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: address, Handler: routes(who), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("%s serves revision %s on http://%s", who.Host, who.Revision, address)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(wait), ignoreClosed(<-failed))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// routes is the whole service: / greets, /ready says ok, /version returns the host and the revision
// that answer.
func routes(who identity) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(who.Greeting + " from " + who.Host + ", revision " + who.Revision + "\n"))
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(who)
	})
	return mux
}
