package server

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

func TestRolesWanted(t *testing.T) {
	t.Parallel()
	const every = "waybill serve conductor deployer caboose api"
	if err := rolesWanted(nil, []string{"api", "deployer"}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		names      []string
		text, hint string
	}{
		{nil, "serve wants at least one role", every},
		{[]string{"conductr"},
			`role "conductr" not found: the roles are provisioner, aggregator, watchdog, promoter, broker, flow, conductor, deployer, caboose, api`,
			"waybill serve conductor"},
		{[]string{"api", "carrier"}, `role "carrier" not found`, every},
		{[]string{"api", "api"}, `the role "api" is named twice`, ""},
	} {
		clitest.WantFault(t, rolesWanted(nil, c.names), fault.Invalid, c.text, c.hint)
	}
}

func TestRolesStartInOneOrder(t *testing.T) {
	t.Parallel()
	if got, want := inOrder([]string{"api", "deployer", "conductor"}), []string{"conductor", "deployer", "api"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// fakeRoles has one role, which runs until its context ends, or fails at once.
type fakeRoles struct {
	err, ends error
	names     []string
}

func (f *fakeRoles) ServingRoles(_ context.Context, _ assembly.RoleOptions, names ...string) ([]lifecycle.Role, error) {
	f.names = names
	return []lifecycle.Role{{Name: "api", Run: func(ctx context.Context) error {
		if f.ends != nil {
			return f.ends
		}
		<-ctx.Done()
		return nil
	}}}, f.err
}

func TestServeRunsItsRolesUntilASignal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause error
		want  fault.Code
	}{
		"SIGTERM": {fault.Wrap(fault.Interrupted, lifecycle.ErrTerminated), ""},
		"Ctrl-C":  {fault.New(fault.Interrupted, "interrupted"), fault.Interrupted},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		roles, started := &fakeRoles{}, 0
		err := runServe(ctx, serveOptions{Roles: roles, Names: []string{"api"}, Started: func() { started++; stop(c.cause) }})
		if fault.CodeOf(err) != c.want || started != 1 || !slices.Equal(roles.names, []string{"api"}) {
			t.Errorf("%s: ended with %v, started %d times with %v", name, err, started, roles.names)
		}
	}
}

func TestServeReportsWhatDoesNotStartOrEnds(t *testing.T) {
	t.Parallel()
	broken := errors.New("port in use")
	if err := runServe(t.Context(), serveOptions{Roles: &fakeRoles{err: broken},
		Started: func() { t.Error("started") }}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := runServe(t.Context(), serveOptions{Roles: &fakeRoles{ends: broken}, Started: func() {}}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
