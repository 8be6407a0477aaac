package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

const serverFile = `handlers:
  notify:
    type: webhook
    parameters: {text: {type: string}}
    request: {url: "https://hooks.example.org/notify"}
schedules:
  daily: {cron: "0 3 * * *", handler: notify, parameters: {text: hello}}
`

func TestCheckConfigCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, map[string]string{"server.yaml": serverFile})
	if err := checkConfig(t.Context(), f.App, filepath.Join(f.Dir, "server.yaml"), false); err != nil {
		t.Fatal(err)
	}
	f.Want(t, "server.yaml is sound: 1 handler, 0 processes, 0 callbacks, 1 schedule, 0 triggers\n", "")
	f.Output = cmdline.JSONOutput
	if err := checkConfig(t.Context(), f.App, filepath.Join(f.Dir, "server.yaml"), false); err != nil {
		t.Fatal(err)
	}
	f.Want(t, "[]\n", "")
}

func TestCheckConfigReportsEveryFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	wrong := strings.Replace(serverFile, "type: webhook", "type: webhok", 1)
	wrong = strings.Replace(wrong, `"0 3 * * *"`, `"0 3 * *"`, 1)
	f := clitest.NewFolder(t, map[string]string{"server.yaml": wrong})
	err := checkConfig(t.Context(), f.App, filepath.Join(f.Dir, "server.yaml"), false)
	if cmdline.ExitStatus(err) != 2 || !clitest.IsShown(err) {
		t.Errorf("%v with exit status %d, want faults that were printed, and 2", err, cmdline.ExitStatus(err))
	}
	printed := f.Warned.String() + f.Printed.String()
	for _, place := range []string{"server.yaml:3:11", "server.yaml:7:17", "waybill: 3 problems\n"} {
		if !strings.Contains(printed, place) {
			t.Errorf("%q is not in:\n%s", place, printed)
		}
	}
	f.Printed.Reset()
	f.Output = cmdline.JSONOutput
	err = checkConfig(t.Context(), f.App, filepath.Join(f.Dir, "server.yaml"), false)
	if cmdline.ExitStatus(err) != 2 || !clitest.IsShown(err) || !strings.Contains(f.Printed.String(), `"line": 3`) {
		t.Errorf("as JSON: %v, %s", err, f.Printed.String())
	}
}

func TestCheckConfigWithoutAFileShowsOne(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, nil)
	clitest.WantFault(t, checkConfig(t.Context(), f.App, filepath.Join(f.Dir, "server.yaml"), false), fault.Invalid,
		"read the configuration server.yaml: ", configStarter)
	err := checkConfig(t.Context(), f.App, f.Dir, false)
	clitest.WantFault(t, err, fault.Invalid, "not a regular file", "")
	if fault.HintOf(err) != "" {
		t.Errorf("hint %q for a folder", fault.HintOf(err))
	}
}

// TestCheckConfigLooksForSecrets: --live misses the names in the file.
func TestCheckConfigLooksForSecrets(t *testing.T) {
	t.Parallel()
	with := strings.Replace(serverFile, "request: {",
		"secrets: [{name: KEY, type: file, path: key}]\n    request: {headers: {Authorization: \"Bearer {{.secrets.KEY}}\"}, ", 1)
	f := clitest.NewFolder(t, map[string]string{"server.yaml": with})
	path := filepath.Join(f.Dir, "server.yaml")
	if err := checkConfig(t.Context(), f.App, path, false); err != nil {
		t.Fatalf("%v\n%s", err, f.Warned.String())
	}
	f.Printed.Reset()
	err := checkConfig(t.Context(), f.App, path, true)
	if printed := f.Warned.String() + f.Printed.String(); cmdline.ExitStatus(err) == 0 || !strings.Contains(printed, "key") {
		t.Errorf("a secret that does not exist: %v\n%s", err, printed)
	}
}
