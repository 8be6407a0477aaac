package step

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// ServiceLog is the end of what a service on a host has printed.
type ServiceLog struct {
	Text []byte // whole lines as the service printed them, control characters too; not necessarily UTF-8
	Cut  bool   // earlier lines are left out
}

// ReadLog reads what a service on a host has printed last, at most that many bytes. known is false
// when the host is not this computer, or no service was ever started there.
func ReadLog(home string, host pipeline.Host, service string, most int64) (log ServiceLog, known bool, err error) {
	home, err = filepath.Abs(home)
	if err != nil {
		return ServiceLog{}, false, err
	}
	dir, foreign := localDir(home, host)
	if foreign != nil {
		return ServiceLog{}, false, nil //nolint:nilerr // the log of a host elsewhere is not known
	}
	// The supervisor moves what it has written to log.1 when it starts, and when log is large.
	for _, name := range []string{"log", "log.1"} {
		if log.Cut {
			break
		}
		text, cut, err := readEnd(filepath.Join(dir, service, ".waybill", name), most-int64(len(log.Text)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return log, false, fault.New(fault.Unavailable, "read what service %s printed on host %s: %w", service, host.Name, err)
		}
		known = true
		log.Text, log.Cut = append(text, log.Text...), cut
	}
	if log.Cut {
		if _, whole, found := bytes.Cut(log.Text, []byte("\n")); found {
			log.Text = whole
		}
	}
	return log, known, nil
}

// readEnd reads the last bytes of a file, at most most. cut reports that the file has more.
func readEnd(name string, most int64) (text []byte, cut bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	from := max(0, info.Size()-most)
	text, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return text, from > 0, err
}
