package step

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// LogQuery selects a part of the output of a service on a host.
type LogQuery struct {
	Most  int64    // bytes
	After LogPlace // the later output; the zero value: the end of all
	Whole bool     // leaves out a last line that is not complete yet, unless it has Most bytes
}

// LogPlace is a place in a log. The zero value is none.
type LogPlace struct {
	File   uint64 // number of the file on its disk
	Offset int64  // bytes
}

// String returns a text such as 4711.80, which ParseLogPlace reads.
func (p LogPlace) String() string { return fmt.Sprintf("%d.%d", p.File, p.Offset) }

// ParseLogPlace reads the text of a place in a log. The error is fault.Invalid.
func ParseLogPlace(text string) (p LogPlace, err error) {
	file, offset, _ := strings.Cut(text, ".")
	if p.File, err = strconv.ParseUint(file, 10, 64); err == nil {
		p.Offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if err != nil || p.File == 0 || p.Offset < 0 || p.String() != text {
		return LogPlace{}, fault.New(fault.Invalid, "want a place in a log such as 4711.80, found %q", text)
	}
	return p, nil
}

// ServiceLog is a part of the output of a service on a host.
type ServiceLog struct {
	Text []byte   // as the service printed it, but for its secrets: control characters too; not necessarily UTF-8
	Cut  bool     // earlier lines are left out
	Next LogPlace // where Text ends
	More bool     // the output after Text was already there
}

// logLine prints where the log in the folder $1 was read to, and at most $2 bytes of it: those after the place $4 of
// the file $3, or the last ones if $3 is 0. log is moved to log.1 when a supervisor starts, and when it is large; one
// of an earlier version copies it. Then the rest of log.1 comes first. Other than regular files are not waited for.
const logLine = ownLine + `own "$1"; cd "$1/.waybill" 2>/dev/null || exit 66
for log in log.1 log; do
	[ ! -e "$log" ] || [ -f "$log" ] || { echo "$log is not a regular file" >&2; exit 73; }
done
[ -f log ] || [ -f log.1 ] || exit 66
number() { set -- $(ls -i "$log") && [ "${1:-}" ] && echo "$1"; }
for log in log log.1 ''; do # log may be moved to log.1 at any moment
	file=$(number) && size=$(wc -c <"$log") && break
done 2>/dev/null
[ "$log" ] || { echo "the log cannot be read" >&2; exit 73; }
size=$((size))
if [ "$3" = 0 ]; then
	echo "$file $size"
	{ [ "$log" = log.1 ] || cat log.1; head -c "$size" "$log"; } 2>/dev/null | tail -c "$2"
elif [ "$3" = "$file" ] && [ "$4" -le "$size" ]; then
	[ $((size - $4)) -le "$2" ] || size=$(($4 + $2))
	echo "$file $size"
	tail -c "+$(($4 + 1))" "$log" | head -c $((size - $4))
else
	echo "$file 0"
	tail -c "+$(($4 + 1))" log.1 2>/dev/null | tail -c "$2"
fi`

// ReadLog reads the output of a service on a host, with marks in the place of the service's secrets. known is false
// when no service was ever started there, or this process cannot reach the host.
func (h *Hosts) ReadLog(ctx context.Context, at pipeline.Place, service *pipeline.Service,
	q LogQuery) (log ServiceLog, known bool, err error) {
	if at.Host.Remote() && h.SSH == nil {
		return ServiceLog{}, false, nil
	}
	host, folder, err := h.connect(at, service.Name)
	if err != nil {
		return ServiceLog{}, false, err
	}
	defer host.Close()
	asked := q.Most
	if q.After == (LogPlace{}) {
		asked++ // one more shows whether earlier ones exist
	}
	var out, reason bytes.Buffer
	argv := []string{"sh", "-c", logLine, "waybill", folder, strconv.FormatInt(asked, 10),
		strconv.FormatUint(q.After.File, 10), strconv.FormatInt(q.After.Offset, 10)}
	exit, err := host.Run(ctx, argv, nil, &out, &reason)
	switch {
	case err != nil:
		return ServiceLog{}, false, unreachable(ctx, at.Host.Name, err)
	case exit == exitAbsent:
		return ServiceLog{}, false, nil
	case exit != 0:
		return ServiceLog{}, false, fault.New(fault.Unavailable, "read what service %s printed on host %s: %s", service.Name,
			at.Host.Name, lastLines(reason.String()))
	}
	log, err = q.readAnswer(out.Bytes())
	if err != nil {
		return ServiceLog{}, false, fault.New(fault.Unavailable, "read what service %s printed on host %s: %w", service.Name, at.Host.Name, err)
	}
	if secrets := h.secretsOf(service); len(secrets) > 0 {
		log.Text = []byte(secrets.Redactor().Text(string(log.Text)))
	}
	return log, true, nil
}

// readAnswer returns the log that logLine has printed.
func (q LogQuery) readAnswer(answer []byte) (log ServiceLog, err error) {
	head, text, _ := bytes.Cut(answer, []byte("\n"))
	if _, err := fmt.Sscan(string(head), &log.Next.File, &log.Next.Offset); err != nil {
		return log, fmt.Errorf("its first line is %.100q: %w", head, err)
	}
	log.Text = text
	first := q.After == (LogPlace{})
	moved := !first && (log.Next.File != q.After.File || log.Next.Offset < q.After.Offset)
	if log.Cut = first && int64(len(text)) > q.Most; log.Cut { // the line in which it was cut is left out, if another follows
		log.Text = text[1:]
		if _, whole, found := bytes.Cut(log.Text, []byte("\n")); found {
			log.Text = whole
		}
	}
	end := bytes.LastIndexByte(log.Text, '\n') + 1
	if rest := int64(len(log.Text) - end); q.Whole && !moved && rest < q.Most && rest <= log.Next.Offset {
		log.Text, log.Next.Offset = log.Text[:end], log.Next.Offset-rest
	}
	log.More = !first && (moved || int64(len(text)) == q.Most)
	return log, nil
}
