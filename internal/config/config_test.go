package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadFillsDefaultsAndCountsPathsFromTheFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       func(*Config)
	}{
		{"empty", "", func(*Config) {}},
		{"comment", "# nothing\nserver: {listen: \"127.0.0.1:0\"}\n", func(c *Config) { c.Server.Listen = "127.0.0.1:0" }},
		{"relative", "ledger: {url: data/log.db}\nblob: {url: \"file:blobs\"}\n", func(c *Config) {
			c.Ledger.URL, c.Blob.URL = "/etc/waybill/data/log.db", "file:/etc/waybill/blobs"
		}},
		{"urls", "ledger: {url: \"postgres://db/waybill\"}\nblob: {url: /srv/blobs}\n", func(c *Config) {
			c.Ledger.URL, c.Blob.URL = "postgres://db/waybill", "/srv/blobs"
		}},
		{"conductor", "conductors: {default: {workers: 4, drain: 90}}\n", func(c *Config) {
			c.Conductors[DefaultConductor] = Conductor{Handlers: []string{"*"}, Workers: 4, Drain: 90 * time.Second,
				PriorityStep: time.Second, TurnRows: 1000}
		}},
		{"conductors", "conductors: {fast: {handlers: [noop, step], priorityStep: 100ms}}\n", func(c *Config) {
			c.Conductors["fast"] = Conductor{Handlers: []string{"noop", "step"}, Workers: 200, Drain: 25 * time.Second,
				PriorityStep: 100 * time.Millisecond, TurnRows: 1000}
		}},
		{"ledger", "ledger: {listenUrl: \"postgres://direct/waybill\", partition: day, retention: 30d, heartbeat: 2}\n", func(c *Config) {
			c.Ledger.ListenURL, c.Ledger.Partition, c.Ledger.Retention, c.Ledger.Heartbeat = "postgres://direct/waybill", "day", 30*24*time.Hour, 2*time.Second
		}},
		{"all actions are kept", "ledger: {retention: never}\n", func(c *Config) { c.Ledger.Retention = 0 }},
		{"free keys", "x-db: &db {url: /var/log.db}\nledger: *db\n", func(c *Config) { c.Ledger.URL = "/var/log.db" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := Default()
			test.want(&want)
			got, err := Read("/etc/waybill/server.yaml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadReportsWhatTheLedgerCannotBe(t *testing.T) {
	t.Parallel()
	_, err := Read("server.yaml", []byte("ledger:\n  listenUrl: db:5432\n  partition: year\n  retention: 1h\n  heartbeat: 20ms\n"))
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`server.yaml:2:14: ledger.listenUrl: want postgres://USER@HOST:PORT/DATABASE`,
		`server.yaml:3:14: ledger.partition: "year" is none of day, week, month`,
		`server.yaml:4:14: ledger.retention: want at least 1d, or never, found "1h"`,
		`server.yaml:5:14: ledger.heartbeat: want a duration from 1s to 10m, found "20ms"`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestReadReportsEveryFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"ledgr: {url: x}",
		"server: {listen: 7070, lisen: x}",
		"conductors:",
		"  default: {workers: 0, drain: soon}",
		"server: {}",
	}, "\n")
	want := []string{
		`server.yaml:1:1: unknown key "ledgr" (did you mean "ledger"?)`,
		`server.yaml:2:18: server.listen: want a string, found a number; write "7070" in quotes`,
		`server.yaml:2:24: unknown key "lisen" in server (did you mean "listen"?)`,
		`server.yaml:4:22: conductors.default.workers: want a whole number from 1 to 10000, found 0`,
		`server.yaml:4:32: conductors.default.drain: want a duration such as 25s or 7d, found "soon"`,
		`server.yaml:5:1: the key "server" is already at 2:1`,
	}
	_, err := Read("server.yaml", []byte(text))
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
