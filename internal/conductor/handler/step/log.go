package step

import (
	"bytes"
	"context"
	"strconv"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// ServiceLog is the end of what a service on a host has printed.
type ServiceLog struct {
	Text []byte // whole lines as the service printed them, control characters too; not necessarily UTF-8
	Cut  bool   // earlier lines are left out
}

// logLine prints the last $2 bytes of the log in the folder $1. The supervisor moves what it has written
// to log.1 when it starts, and when log is large. What is not a regular file is not waited for.
const logLine = `cd "$1/.waybill" 2>/dev/null || exit 66
for log in log.1 log; do
	[ ! -e "$log" ] || [ -f "$log" ] || { echo "$log is not a regular file" >&2; exit 73; }
done
[ -f log ] || [ -f log.1 ] || exit 66
cat log.1 log 2>/dev/null | tail -c "$2"`

// ReadLog reads what a service on a host has printed last, at most that many bytes. known is false
// when no service was ever started there, or this process cannot reach the host.
func (h *Hosts) ReadLog(ctx context.Context, at pipeline.Place, service string, most int64) (log ServiceLog, known bool, err error) {
	if at.Host.Remote() && h.SSH == nil {
		return ServiceLog{}, false, nil
	}
	host, folder, err := h.connect(at, service)
	if err != nil {
		return ServiceLog{}, false, err
	}
	defer host.Close()
	var out, reason bytes.Buffer
	argv := []string{"sh", "-c", logLine, "waybill", folder, strconv.FormatInt(most+1, 10)}
	exit, err := host.Run(ctx, argv, nil, &out, &reason)
	switch {
	case err != nil:
		return ServiceLog{}, false, unreachable(ctx, at.Host.Name, err)
	case exit == exitAbsent:
		return ServiceLog{}, false, nil
	case exit != 0:
		return ServiceLog{}, false, fault.New(fault.Unavailable, "read what service %s printed on host %s: %s", service, at.Host.Name, lastLines(reason.String()))
	}
	log = ServiceLog{Text: out.Bytes()}
	if log.Cut = int64(len(log.Text)) > most; log.Cut { // the line in which it was cut is left out, if another one follows
		log.Text = log.Text[1:]
		if _, whole, found := bytes.Cut(log.Text, []byte("\n")); found {
			log.Text = whole
		}
	}
	return log, true, nil
}
