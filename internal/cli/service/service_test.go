package service

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestServiceLog(t *testing.T) {
	t.Parallel()
	f, o := &serviceLog{log: service.ServiceLogView{Text: "ready\x1b]0;title\x07\n\x1b[31mred\n"}}, clitest.NewOutput(clitest.AsText)
	if err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "/beta/all/oak/"},
		Raw: o.Out, Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "ServiceLog greeter greeter/beta/all/oak false")
	o.Want(t, "ready\nred\n", "")
	o = clitest.NewOutput(clitest.AsText)
	if err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "oak"}, Colours: true,
		Raw: o.Out, Out: o.Printer}); err != nil || o.Printed.String() != "ready\n\x1b[31mred\x1b[0m\n" {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestServiceLogIsFollowed(t *testing.T) {
	t.Parallel()
	f, o := &serviceLog{log: service.ServiceLogView{Text: "one\n", Next: "7.4"}, follows: []service.ServiceLogView{
		{Next: "7.4"}, {Text: "\x1b[2Jtwo\n", Next: "7.8", More: true}, {Text: "three\n", Next: "8.6"}}}, clitest.NewOutput(clitest.AsText)
	pauses := 0
	options := serviceLogOptions{Log: f, At: serviceHost{"greeter", "beta/all/oak"}, Follow: true,
		Pause: func(context.Context, time.Duration) bool { pauses++; return true }, Raw: o.Out, Out: o.Printer}
	if err := runServiceLog(t.Context(), options); !errors.Is(err, clitest.ErrAway) {
		t.Fatal(err)
	}
	const call = "ServiceLog greeter greeter/beta/all/oak true"
	f.WantCalls(t, call, call+" 7.4", call+" 7.4", call+" 7.8", call+" 8.6")
	o.Want(t, "one\ntwo\nthree\n", "")
	if pauses != 3 {
		t.Errorf("%d pauses, want 3: none while there is more", pauses)
	}
	o = clitest.NewOutput(clitest.AsJSON)
	f.follows, options.Out = []service.ServiceLogView{{Next: "7.4"}, {Text: "two\n", Next: "7.8"}}, o.Printer
	if err := runServiceLog(t.Context(), options); !errors.Is(err, clitest.ErrAway) || strings.Count(o.Printed.String(), "\n") != 2 {
		t.Errorf("as JSON: %v, %s", err, o.Printed.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	options.Pause = func(context.Context, time.Duration) bool {
		cancel(fault.New(fault.Interrupted, "stopped"))
		return false
	}
	if err := runServiceLog(ctx, options); !fault.Is(err, fault.Interrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestListServices(t *testing.T) {
	t.Parallel()
	f, o := &serviceLog{services: []service.ServiceView{{Target: "greeter/beta/all/oak", Name: "greeter",
		Manager: "process", State: &service.Services{State: service.ServiceDown}}}}, clitest.NewOutput(clitest.AsText)
	if err := runListServices(t.Context(), listServicesOptions{Services: f, Pipeline: "greeter", Out: o.Printer,
		Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Services greeter")
	o.Want(t, "HOST          RUNS  STATE  RESTARTS  SINCE  REMARK\nbeta/all/oak  -     down   0         -\n", "")
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runListServices(t.Context(), listServicesOptions{Services: &serviceLog{}, Pipeline: "greeter",
		Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	o.Want(t, "[]\n", "")
}

func TestRestartService(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter",
		Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f, o := &serviceLog{Log: clitest.Log{Version: journal.Version{Definition: definition}}}, clitest.NewOutput(clitest.AsText)
	options := restartServiceOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"}, Reason: "slow", Out: o.Printer}
	if err := runRestartService(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Restart greeter greeter/beta/all/oak slow")
	o.Want(t, "greeter: restarted on beta/all/oak\n", "")
	f.Errs, options.At.Host = map[string]error{"Restart": fault.New(fault.NotFound, "not found")}, "oak"
	clitest.WantFault(t, runRestartService(t.Context(), options), fault.NotFound, "not found", "waybill service restart greeter beta/all/oak")
}

func TestServiceStatusOffersTheLikelyHost(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter",
		Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f := &serviceLog{Log: clitest.Log{Errs: map[string]error{"ServiceStatus": fault.New(fault.NotFound, "not found")},
		Version: journal.Version{Definition: definition}}}
	err := runServiceStatus(t.Context(), serviceStatusOptions{Services: f, At: serviceHost{"greeter", "oak"},
		Out: clitest.NewOutput(clitest.AsText).Printer, Now: clitest.Noon})
	clitest.WantFault(t, err, fault.NotFound, "not found", "waybill service status greeter beta/all/oak")
	f.WantCalls(t, "ServiceStatus greeter greeter/oak", "Version greeter 0")
}

func TestServiceLogOffersTheLikelyHost(t *testing.T) {
	t.Parallel()
	missing := fault.New(fault.NotFound, "host greeter/oak not found")
	definition := pipeline.Definition{Pipeline: "greeter",
		Stages: []pipeline.Stage{{Name: "beta", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "oak"}}}}}}}
	f := &serviceLog{Log: clitest.Log{Errs: map[string]error{"ServiceLog": missing}, Version: journal.Version{Definition: definition}}}
	for host, hint := range map[string]string{"oak": "waybill service logs greeter beta/all/oak", "zzzzzzzzz": "",
		"beta": "waybill service logs greeter beta/all/oak", "beta/all": "waybill service logs greeter beta/all/oak"} {
		err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", host}, Raw: io.Discard,
			Out: clitest.NewOutput(clitest.AsText).Printer})
		if !fault.Is(err, fault.NotFound) || fault.HintOf(err) != hint {
			t.Errorf("%s: %v, hint %q", host, err, fault.HintOf(err))
		}
	}
	f.Errs["Version"] = clitest.ErrAway
	err := runServiceLog(t.Context(), serviceLogOptions{Log: f, At: serviceHost{"greeter", "oak"}, Raw: io.Discard,
		Out: clitest.NewOutput(clitest.AsText).Printer})
	clitest.WantFault(t, err, fault.NotFound, "not found", "")
}
