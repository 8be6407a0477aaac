package aws_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/aws/awstest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestMain(m *testing.M) { os.Exit(awstest.Main(m)) }

func TestExecutionsAreStartedOnceAndStopped(t *testing.T) {
	t.Parallel()
	s := awstest.Start(t)
	a, machine := s.Account(t), s.Machine("mirror")
	arn := aws.ExecutionARN(machine, "x")
	if want := "arn:aws:states:eu-north-1:123456789012:execution:mirror:x"; arn != want {
		t.Errorf("execution %s, want %s", arn, want)
	}
	if got := aws.ExecutionARN(machine+":live", "x"); got != arn {
		t.Errorf("by an alias %s", got)
	}
	for _, input := range []string{`{"n": 1}`, `{"n": 1}`, `{"n": 2}`} { // the last one is refused, and no fault
		if err := a.Start(t.Context(), machine, "x", input); err != nil {
			t.Error(err)
		}
	}
	if got := s.Execution(arn).Input; got != `{"n": 1}` {
		t.Errorf("input %s", got)
	}
	if e, err := a.Describe(t.Context(), arn); err != nil || e.Status != aws.StatusRunning || e.StartedAt.IsZero() || !e.EndedAt.IsZero() {
		t.Errorf("running: %+v, %v", e, err)
	}
	if err := a.Stop(t.Context(), arn, "asked"); err != nil {
		t.Error(err)
	}
	if e, err := a.Describe(t.Context(), arn); err != nil || e.Status != aws.StatusAborted || e.Cause != "asked" || e.EndedAt.IsZero() {
		t.Errorf("stopped: %+v, %v", e, err)
	}
	if err := a.FindMachine(t.Context(), machine); err != nil {
		t.Error(err)
	}
}

func TestMessagesComeAgainUntilTheyAreDeleted(t *testing.T) {
	t.Parallel()
	s := awstest.Start(t)
	a, queue := s.Account(t), s.Queue("events")
	if err := a.Send(t.Context(), queue, "first"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := a.Receive(t.Context(), queue)
		if err != nil || len(got) != 1 || got[0].Body != "first" {
			t.Fatalf("received %v, %v", got, err)
		}
	}
	got, err := a.Receive(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), queue, got); err != nil {
		t.Error(err)
	}
	if left := s.Messages(queue); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if err := a.FindQueue(t.Context(), queue); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreJudged(t *testing.T) {
	t.Parallel()
	s := awstest.Start(t)
	a, machine, queue := s.Account(t), s.Machine("mirror"), s.Queue("process")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		fault *awstest.Fault
		call  func() error
		want  aws.Meaning
		code  string
	}{
		"no machine": {nil, func() error { return a.Start(t.Context(), machine+"s", "x", "{}") }, aws.Missing,
			"StateMachineDoesNotExist"},
		"no queue": {nil, func() error { return a.Send(t.Context(), queue+"s", "x") }, aws.Missing, "NonExistentQueue"},
		"no execution": {nil,
			func() error { _, err := a.Describe(t.Context(), aws.ExecutionARN(machine, "y")); return err }, aws.Missing, "ExecutionDoesNotExist"},
		"no ARN":             {nil, func() error { return a.Start(t.Context(), "mirror", "x", "{}") }, aws.Missing, "InvalidArn"},
		"throttled":          {&awstest.Fault{Status: 400, Code: "ThrottlingException"}, nil, aws.Busy, "ThrottlingException"},
		"throttled by SQS":   {&awstest.Fault{Status: 403, Code: "RequestThrottled"}, nil, aws.Busy, "RequestThrottled"},
		"too many at a time": {&awstest.Fault{Status: 400, Code: "ExecutionLimitExceeded"}, nil, aws.Busy, "ExecutionLimitExceeded"},
		"not allowed":        {&awstest.Fault{Status: 400, Code: "AccessDeniedException"}, nil, aws.Busy, "AccessDeniedException"},
		"broken":             {&awstest.Fault{Status: 500, Code: "InternalFailure"}, nil, aws.Busy, "InternalFailure"},
		"away":               {&awstest.Fault{Status: 503, Code: "ServiceUnavailable"}, nil, aws.Busy, "ServiceUnavailable"},
		"no answer":          {&awstest.Fault{}, nil, aws.Busy, "unreachable"},
		"wrong input":        {&awstest.Fault{Status: 400, Code: "InvalidExecutionInput"}, nil, aws.Wrong, "InvalidExecutionInput"},
		"a word of tomorrow": {&awstest.Fault{Status: 400, Code: "SomethingNew"}, nil, aws.MayPass, "SomethingNew"},
		"this process ends":  {nil, func() error { return a.Send(canceled, queue, "x") }, aws.MayPass, "canceled"},
	} {
		s.Fail(func(string, int) *awstest.Fault { return c.fault })
		if c.call == nil {
			c.call = func() error { return a.Start(t.Context(), machine, "x", "{}") }
		}
		before := len(s.Calls(""))
		err := c.call()
		if got, code := aws.Judge(err); err == nil || got != c.want || code != c.code {
			t.Errorf("%s: judged %v, %q, want %v, %q: %v", name, got, code, c.want, c.code, err)
		}
		if made := len(s.Calls("")) - before; made > 1 {
			t.Errorf("%s: %d calls: the caller tries again, not the client", name, made)
		}
	}
}

// Not parallel: the environment is one for all tests.
func TestSettingsAreFoundByProfile(t *testing.T) {
	s := awstest.Start(t)
	file := filepath.Join(t.TempDir(), "config")
	content := "[profile flows]\nregion = eu-west-1\naws_access_key_id = flows\naws_secret_access_key = secret\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	t.Setenv("AWS_REGION", "")
	queue := s.Queue("process")
	for _, c := range []aws.Config{{Profile: "flows"}, {Profile: "flows", Region: "us-west-2"}, {}} {
		c.Endpoint = s.URL
		a, err := aws.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), queue, "x"); err != nil {
			t.Error(err)
		}
	}
	want := []awstest.Call{{Name: "SendMessage", Region: "eu-west-1", Key: "flows"}, {Name: "SendMessage", Region: "us-west-2", Key: "flows"},
		{Name: "SendMessage", Region: aws.DefaultRegion, Key: "waybill"}}
	if diff := cmp.Diff(want, s.Calls("")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if _, err := aws.Open(t.Context(), aws.Config{Profile: "flow"}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), `"flow"`) {
		t.Errorf("a profile that is not there: %v", err)
	}
	if _, err := aws.Open(t.Context(), aws.Config{}); !fault.Is(err, fault.Invalid) || err.Error() != "no region is named" {
		t.Errorf("no region: %v", err)
	}
}
