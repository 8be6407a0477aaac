//go:build services

package postgres

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
)

func TestServersThatLackAFixAreKnown(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{
		150000: "15.15", 150014: "15.15", 150015: "", 160010: "16.11", 160011: "", 170006: "17.7", 170007: "", 180000: "",
	} {
		if got := fixedIn(version); got != want {
			t.Errorf("%d is to be updated to %q, want %q", version, got, want)
		}
	}
}

// TestAnInstanceWarnsOfItsServer compares the log of a start with the server that runs.
func TestAnInstanceWarnsOfItsServer(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	d, err := Open(t.Context(), pgtest.URL(t), Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if err := d.reads.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil { // nothing is logged from here on
		t.Fatal(err)
	}
	if warned := strings.Contains(said.String(), "update PostgreSQL"); warned != (fixedIn(version) != "") {
		t.Errorf("server %d: the log says %q", version, said.String())
	}
}
