package assembly

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// BackedUp is `waybill backup -o json`.
type BackedUp struct {
	Log     string  `json:"log"`
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Backup copies the embedded log into a new file, while it is in use.
func (p Place) Backup(ctx context.Context, file string) (BackedUp, error) {
	s, err := p.fileLog("backup", "pg_dump --format=custom --file=FILE URL")
	if err != nil {
		return BackedUp{}, err
	}
	if err := needLog(s.URL); err != nil {
		return BackedUp{}, err
	}
	began := time.Now()
	if err := sqlite.Backup(ctx, s.URL, file); err != nil {
		return BackedUp{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return BackedUp{}, err
	}
	return BackedUp{Log: s.URL, File: file, Bytes: info.Size(), Seconds: time.Since(began).Seconds()}, nil
}

// Restored is `waybill restore -o json`.
type Restored struct {
	Log  string `json:"log"`
	File string `json:"file"`
	Kept string `json:"kept,omitempty"` // the old log; "" if there was none
}

// Restore replaces the embedded log by a backup and keeps the old log beside it. No process may run roles in the
// meantime.
func (p Place) Restore(ctx context.Context, backup string) (Restored, error) {
	s, err := p.fileLog("restore", "pg_restore --clean --if-exists --dbname=URL FILE")
	if err != nil {
		return Restored{}, err
	}
	if err := p.CreateHome(s.Home); err != nil {
		return Restored{}, err
	}
	from, _, err := file.Open(p.Path(backup))
	if err != nil {
		return Restored{}, fault.New(fault.Invalid, "read the backup %s: %w", p.Shorten(backup), file.Plain(err))
	}
	defer from.Close()
	lock, err := lifecycle.Lock(s.Home.Dir)
	if err != nil {
		return Restored{}, err
	}
	defer func() { _ = lock.Unlock() }() // it ends with this process at the latest
	kept := unused(fmt.Sprintf("%s.before-%s", s.URL, time.Now().UTC().Format("20060102T150405Z")))
	if err := sqlite.Restore(ctx, backup, s.URL, kept); err != nil {
		return Restored{}, err
	}
	made := Restored{Log: s.URL, File: backup}
	if _, err := os.Stat(kept); err == nil {
		made.Kept = kept
	}
	return made, nil
}

// unused returns a path without a file: the path itself, or the path and a number. The caller holds the home's lock.
func unused(path string) string {
	name := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", path, n)
	}
}

// fileLog finds the log that a command copies as a file. For a log on PostgreSQL the error names the program that copies it.
func (p Place) fileLog(doing, instead string) (*Session, error) {
	s, err := p.locate(p.Dir)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case Remote:
		return nil, fault.New(fault.Invalid, "%s works on a log, not through a server", doing).WithHint("run it where the log is: --home")
	case shared:
		return nil, fault.New(fault.Invalid, "a log on PostgreSQL is copied by PostgreSQL's own programs").WithHint("%s", instead)
	}
	return s, nil
}
