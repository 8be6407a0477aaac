package local

import (
	"context"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// Files reads files of people by the names that they gave them.
type Files interface {
	// Path returns a path as an absolute one: a relative one begins at the working directory.
	Path(name string) string
	// Shorten returns a path as seen from the working directory when that is shorter.
	Shorten(path string) string
	// Trust returns an error for files and folders of other users.
	Trust(paths ...string) error
	// ReadTrusted reads a file, and at most one byte more than limit. The error is file.ErrForeign if Trust would return one.
	ReadTrusted(path string, limit int64) ([]byte, error)
}

// Console shows a build to a person or in a log, and gets answers of that person.
type Console interface {
	// Problems prints warnings.
	Problems(fault.Problems)
	// View returns the view of a build that is about to run.
	View(Head) worker.View
	// CanAsk reports whether a person answers.
	CanAsk() bool
	// Password prompts a person for a password.
	Password(ctx context.Context, name string) (string, error)
	// Shell opens a shell in the folder of a step that failed.
	Shell(ctx context.Context, kept command.Kept) error
}

// Builder plans builds and runs them on this computer.
type Builder struct {
	Files
	Console
	Environment func(string) string // such as os.Getenv
	Dir         string              // the working directory, which is built if no other folder is named
	Home        string              // a folder that is not part of what is built; "": none
	Config      string              // server.yaml that has builder.tools; "": the user's own, if there is one
	Version     string              // version of this program
	Err         io.Writer           // output of warnings and addresses
	// Earlier finds the build that --resume names, Last for the last one of the folder.
	Earlier func(name, folder string) (*results.Reader, error)
	// Trace returns where the spans of a build go, and what sends the last ones at its end. Errors go to the log.
	Trace func(ctx context.Context, errors *slog.Logger) (trace.TracerProvider, func(context.Context) error)
	// Waits is called when the build has ended and only its readers are waited for, at most so long.
	Waits func(time.Duration)
	// Terminated reports whether SIGTERM has ended a context.
	Terminated func(context.Context) bool
}

// errorLog prints errors of the worker API and of the sending of spans.
func (b *Builder) errorLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(b.Err, &slog.HandlerOptions{Level: slog.LevelError}))
}
