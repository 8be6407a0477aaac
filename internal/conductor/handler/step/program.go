package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// hostProgram is Waybill's half on a host, one POSIX shell file for every kind of host.
var hostProgram = systemdPart + hostPart

//go:embed host.sh
var hostPart string

// systemdPart has the functions that run services under systemd.
//
//go:embed systemd.sh
var systemdPart string

// Exit statuses of the host program.
const (
	exitUsage    = 64  // wrong use: a bug
	exitFenced   = 65  // a newer deployment, or another ledger, was there
	exitAbsent   = 66  // the release is not on the host
	exitUnsent   = 69  // the host program itself is not on the host, or damaged
	exitNotReady = 70  // the service did not stay up; the host went back
	exitHook     = 71  // a hook failed
	exitDisk     = 73  // the disk or a tool failed
	exitStuck    = 74  // the old service does not end
	exitBusy     = 75  // another call still runs
	exitDamaged  = 76  // content did not arrive as it was sent
	exitForeign  = 77  // the folder belongs to another user
	exitNotFound = 127 // the host lacks sh, or sudo
	exitSignal   = 128 // and above: ended by a signal
)

// ownLine defines a function that ends the shell if a folder belongs to another user, who could have this one run
// commands, or read files by links. Whoever became root by sudo is trusted. Where the shell knows no -O, find answers;
// a host that lacks find is refused for that later.
const ownLine = `own() {
	[ ! -e "$1" ] || [ -O "$1" ] 2>/dev/null || ! command -v find >/dev/null || {
		user=$(id -u) behind=0 && { [ "$user" != 0 ] || behind=${SUDO_UID:-0}; }
		[ -n "$(find "$1/." -prune \( -user "$user" -o -user 0 -o -user "$behind" \) -print)" ]
	} || { echo "$1 belongs to another user, who could have this account run commands" >&2; exit 77; }
}
`

// Shell lines that call the host program, and send it. $0 is a name for messages. The program is called only if it
// has the digest that its name ends in: a power loss may leave an empty file, and sh ends an empty file with success.
// A file that is sent puts itself in place, durably.
const (
	callLine = ownLine +
		`own "$2"; { sum=$(sha256sum <"$1" || shasum -a 256 <"$1"); } 2>/dev/null; [ "${sum%% *}" = "${1##*-}" ] || exit 69; exec sh "$@"`
	sendLine = ownLine +
		`own "$1"; umask 022 && mkdir -p "$1/.waybill" && chmod 700 "$1/.waybill" && cat >"$2.$$" && [ "$(wc -c <"$2.$$")" -eq "$3" ] && exec sh "$2.$$" "$1" install "name=$2"`
)

// maxOutput is the number of bytes of a host's answer that are kept; the rest is dropped, and the
// answer is not complete then. A line for each content that a host lacks has 72 bytes.
const maxOutput = 64 << 20

// program is the host program for one service on one host.
type program struct {
	host   Host
	name   string // name of the host, for people
	folder string // folder of the service

	passed func(fence string) // is called with the fence that the caller's has replaced; nil: is not
}

// report is the answer of the host program: key=value lines.
type report map[string][]string

// Bounds of the kept or shown part of an answer, as the host program has them too. A host need not run it.
const (
	mostLines   = 100
	mostPrinted = 200_000 // bytes of these lines
	mostPaths   = 20
)

// first returns the value of a key, of at most maxPath bytes.
func (r report) first(key string) string {
	if len(r[key]) == 0 {
		return ""
	}
	return cut(r[key][0])
}

// printed returns the last lines that a service or a step has printed.
func (r report) printed() []string {
	lines := r["log"]
	lines = lines[max(0, len(lines)-mostLines):]
	for left, i := mostPrinted, len(lines)-1; i >= 0; i-- {
		if left -= len(lines[i]); left < 0 {
			return lines[i+1:]
		}
	}
	return lines
}

// paths returns the values of a key that are paths.
func (r report) paths(key string) (paths []string) {
	for _, p := range r[key][:min(len(r[key]), mostPaths)] {
		paths = append(paths, cut(p))
	}
	return paths
}

func cut(value string) string { return value[:min(len(value), maxPath)] }

// call runs a verb. stdin is called for each try, since the program may have to be sent first; nil
// is an empty one.
func (p *program) call(ctx context.Context, stdin func() io.Reader, verb string, args ...string) (report, error) {
	argv := append([]string{"sh", "-c", callLine, "waybill", p.path(), p.folder, verb}, args...)
	ran, err := p.run(ctx, stdin, argv)
	if err == nil && ran.exit == exitUnsent {
		if err := p.send(ctx); err != nil {
			return nil, err
		}
		ran, err = p.run(ctx, stdin, argv)
	}
	if fence := ran.first("passed"); fence != "" && p.passed != nil {
		p.passed(fence)
	}
	return ran.report, p.check(ctx, verb, ran, err)
}

// check returns the error of a call. Only a call that has reported its own end is a success.
func (p *program) check(ctx context.Context, verb string, ran ended, err error) error {
	switch {
	case err != nil:
		return unreachable(ctx, p.name, err)
	case ran.exit != 0:
		return p.failure(ran.exit, verb, ran.reason, ran.report)
	case ran.first("done") != verb:
		return fault.New(fault.Failed, "host %s: the answer to %s is not complete", p.name, verb).
			WithHint("if this happens again, look at %s on the host", p.folder)
	}
	return nil
}

// deployed reports whether something was ever deployed to the folder.
func (p *program) deployed(ctx context.Context) (bool, error) {
	exit, err := p.host.Run(ctx, []string{"test", "-d", path.Join(p.folder, ".waybill")}, nil, nil, nil)
	if err != nil {
		return false, unreachable(ctx, p.name, err)
	}
	return exit == 0, nil
}

func (p *program) path() string {
	sum := sha256.Sum256([]byte(hostProgram))
	return path.Join(p.folder, ".waybill", "host-"+hex.EncodeToString(sum[:]))
}

// ended is a run of the program that reached its end.
type ended struct {
	report
	exit   int
	reason string // its standard error
}

func (p *program) run(ctx context.Context, stdin func() io.Reader, argv []string) (ended, error) {
	var out, reason bounded
	var in io.Reader
	if stdin != nil {
		in = stdin()
	}
	exit, err := p.host.Run(ctx, argv, in, &out, &reason)
	return ended{parseReport(out.String()), exit, strings.TrimSpace(reason.String())}, err
}

// send stores the program on the host, unless the host lacks its requirements.
func (p *program) send(ctx context.Context) error {
	argv := []string{"sh", "-c", sendLine, "waybill", p.folder, p.path(), strconv.Itoa(len(hostProgram))}
	ran, err := p.run(ctx, func() io.Reader { return strings.NewReader(hostProgram) }, argv)
	if ran.exit > 0 && ran.exit < exitSignal && ran.exit != exitForeign { // of a tool of the host
		ran.exit = exitDisk
	}
	if err := p.check(ctx, "install", ran, err); err != nil {
		return err
	}
	if lacks := ran.report["lacks"]; len(lacks) > 0 {
		return fault.Permanent(fault.New(fault.Unavailable, "host %s lacks %s", p.name, strings.Join(lacks, ", ")).
			WithHint("install what is missing on the host"))
	}
	return nil
}

func parseReport(text string) report {
	r := report{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			r[key] = append(r[key], value)
		}
	}
	return r
}

// quote makes one word of text for a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

func pair(key string, value any) string { return fmt.Sprintf("%s=%v", key, value) }

// bounded keeps the beginning of its input.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		_, _ = b.Buffer.Write(p[:min(room, len(p))]) // never fails
	}
	return len(p), nil
}
