package obs

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Format is the form of log lines.
type Format string

// The formats. The empty one chooses: text on a terminal, else JSON.
const (
	Text Format = "text"
	JSON Format = "json"
)

// LogOptions configures the log of a process.
type LogOptions struct {
	Format Format     // default: text when the writer is a terminal, else json
	Level  slog.Level // lines below it are dropped; default: info
}

// NewLogger logs to w; an unknown format is fault.Invalid.
func NewLogger(w io.Writer, o LogOptions) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	if o.Format == "" {
		o.Format = formatFor(w)
	}
	switch o.Format {
	case Text:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case JSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fault.New(fault.Invalid, "log format %q: want text or json", o.Format)
}

// ParseLevel reads debug, info, warn or error.
func ParseLevel(name string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return level, fault.New(fault.Invalid, "log level %q: want debug, info, warn or error", name)
	}
	return level, nil
}

// Or returns log, or for nil a logger that drops everything.
func Or(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Component returns log with the component's name on every line.
func Component(log *slog.Logger, name string) *slog.Logger {
	return Or(log).With(KeyComponent, name)
}

// Error returns the attribute of an error.
func Error(err error) slog.Attr { return slog.Any(KeyError, fmt.Sprint(err)) }

func formatFor(w io.Writer) Format {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return Text
	}
	return JSON
}
