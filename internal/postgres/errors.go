package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// repeatable reports whether the database asks to run the transaction again: after a serialization
// failure, a deadlock, or a race of two transactions for the same row.
func repeatable(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch answer.Code {
	case "40001", "40P01", "23505":
		return true
	}
	return false
}

// stale reports whether a connection ended before it was used.
func stale(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return displaced(answer) || answer.Code == "57P05" // or idle for too long
	}
	return away(err)
}

// coded gives errors that may pass on their own the code ledger_unavailable. An ended context stays as it is: the
// caller gave up, the database did not.
func coded(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && !unconnected {
		return codedAnswer(answer, err)
	}
	if unconnected || away(err) {
		return fault.New(fault.LedgerUnavailable, "PostgreSQL does not answer: %w", err).
			WithHint("nothing is lost; work resumes when the database is back")
	}
	return err
}

// codedAnswer returns the server's own error with a code, by its SQLSTATE.
func codedAnswer(answer *pgconn.PgError, err error) error {
	switch {
	case answer.Code == "53100":
		return fault.New(fault.LedgerUnavailable, "PostgreSQL's disk is full: %w", err).WithHint("make room; nothing is lost")
	case answer.Code == "25006":
		return fault.New(fault.LedgerUnavailable, "PostgreSQL takes no writes: %w", err).
			WithHint("it is a standby, or default_transaction_read_only is on; work resumes when the URL leads to a server that takes writes")
	case answer.Code == "22021":
		return fmt.Errorf("%w: %w", store.ErrNotText, err)
	case answer.Code == "42501":
		return fault.New(fault.Unavailable, "PostgreSQL refuses: %w", err).
			WithHint(
				"Waybill's role must own the tables of its log and may create new ones: GRANT CREATE ON SCHEMA public TO ROLE, or " +
					"make it the owner of the database")
	case answer.Code == "22P05":
		return fault.New(fault.Unavailable, "PostgreSQL cannot store a character: %w", err).WithHint(wantUTF8)
	case answer.Code == "23505" && (answer.TableName == "thread" || answer.TableName == "service_instance"):
		return fmt.Errorf("%w: %w", store.ErrRace, err)
	case answer.Code == "57014":
		return fault.New(fault.LedgerUnavailable, "PostgreSQL ended a statement that took too long: %w", err).
			WithHint("ask for less, such as a shorter time or fewer rows")
	case strings.HasPrefix(answer.Code, "40"), answer.Code == "55P03":
		return fault.New(fault.LedgerUnavailable, "PostgreSQL cannot do it now: %w: %w", store.ErrLocked, err)
	case strings.HasPrefix(answer.Code, "53"), strings.HasPrefix(answer.Code, "57"), strings.HasPrefix(answer.Code, "08"),
		answer.Code == "25P03":
		return fault.New(fault.LedgerUnavailable, "PostgreSQL cannot do it now: %w", err)
	case answer.Code == "23514" && strings.Contains(answer.Message, "no partition"):
		return noPartition(answer.Detail, err)
	}
	return err
}

// wantUTF8 is the hint for a database of another encoding.
const wantUTF8 = "its encoding must be UTF8: createdb -E UTF8 -T template0 NAME"

// away reports whether the connection is the cause.
func away(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || strings.Contains(err.Error(), "conn closed")
}

// unreachable returns the error of a connection that could not be made. It names the place and
// never the password.
func unreachable(config *pgx.ConnConfig, err error) error {
	place := net.JoinHostPort(config.Host, portText(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		place = config.Host
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && answer.Code == "3D000":
		return fault.New(fault.Unavailable, "database %q not found on %s", config.Database, place).
			WithHint("createdb %s", config.Database)
	case ok && (answer.Code == "28P01" || answer.Code == "28000"):
		return fault.New(fault.Unavailable, "PostgreSQL on %s refuses user %q: %s", place, config.User, answer.Message).
			WithHint("put the password into the URL, PGPASSWORD or ~/.pgpass")
	case errors.Is(err, errReadOnly):
		return fault.New(fault.Unavailable, "no PostgreSQL of the hosts in the URL takes writes").
			WithHint("all that answer are standbys, or have default_transaction_read_only on")
	case ok:
		return fault.New(fault.Unavailable, "PostgreSQL on %s refuses: %s", place, answer.Message)
	}
	return fault.New(fault.Unavailable, "no PostgreSQL answers on %s: %s", place, innermost(err)).
		WithHint("is it running, and is the address right?")
}

// portText returns a port in decimal.
func portText(port uint16) string { return strconv.Itoa(int(port)) }

// innermost returns the text of the cause below all others, which is the shortest and most
// specific. Of several attempts it is the last one's.
func innermost(err error) string {
	for {
		if tries, ok := err.(interface{ Unwrap() []error }); ok && len(tries.Unwrap()) > 0 {
			err = tries.Unwrap()[len(tries.Unwrap())-1]
			continue
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// withoutPassword returns an address that may be printed.
func withoutPassword(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "(unreadable)"
	}
	return parsed.Redacted()
}
