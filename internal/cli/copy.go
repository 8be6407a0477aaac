package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// backedUp is `waybill backup -o json`.
type backedUp struct {
	Log     string  `json:"log"`
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// backup copies the embedded log into a new file, while it is in use.
func (p place) backup(ctx context.Context, file string) (backedUp, error) {
	s, err := p.fileLog("backup", "pg_dump --format=custom --file=FILE URL")
	if err != nil {
		return backedUp{}, err
	}
	if err := needLog(s.url); err != nil {
		return backedUp{}, err
	}
	began := time.Now()
	if err := sqlite.Backup(ctx, s.url, file); err != nil {
		return backedUp{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return backedUp{}, err
	}
	return backedUp{Log: s.url, File: file, Bytes: info.Size(), Seconds: time.Since(began).Seconds()}, nil
}

// restored is `waybill restore -o json`.
type restored struct {
	Log  string `json:"log"`
	File string `json:"file"`
	Kept string `json:"kept,omitempty"` // the old log; "" if there was none
}

// restore replaces the embedded log by a backup and keeps the old log beside it. No process may run roles meanwhile.
func (p place) restore(ctx context.Context, file string) (restored, error) {
	s, err := p.fileLog("restore", "pg_restore --clean --if-exists --dbname=URL FILE")
	if err != nil {
		return restored{}, err
	}
	if err := s.home.create(); err != nil {
		return restored{}, err
	}
	lock, err := lifecycle.Lock(s.home.dir)
	if err != nil {
		return restored{}, err
	}
	defer func() { _ = lock.Unlock() }() // it ends with this process at the latest
	kept := fmt.Sprintf("%s.before-%s", s.url, time.Now().UTC().Format("20060102T150405Z"))
	if err := sqlite.Restore(ctx, file, s.url, kept); err != nil {
		return restored{}, err
	}
	made := restored{Log: s.url, File: file}
	if _, err := os.Stat(kept); err == nil {
		made.Kept = kept
	}
	return made, nil
}

// fileLog finds the log that a command copies as a file. For a log on PostgreSQL the error names the program that copies it.
func (p place) fileLog(doing, instead string) (*session, error) {
	s, err := p.locate(p.dir)
	if err != nil {
		return nil, err
	}
	switch s.kind {
	case remote:
		return nil, fault.New(fault.Invalid, "%s works on a log, not through a server", doing).WithHint("run it where the log is: --home")
	case shared:
		return nil, fault.New(fault.Invalid, "a log on PostgreSQL is copied by PostgreSQL's own programs").WithHint("%s", instead)
	}
	return s, nil
}
