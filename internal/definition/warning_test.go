package definition_test

import (
	"os"
	"testing"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	_, problems := read(testPipeline("", "name: a\ngroups:\n- name: g\n  maxParallel: 2\n  hosts: [\"local://x\", \"local://y\"]"))
	want := "waybill.yaml:3:3: warning: the last stage \"a\" has no test\n" +
		"waybill.yaml:6:18: warning: maxParallel takes all 2 hosts of group \"g\" at once"
	if err := problems.Err(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, problems.Warnings().Error()); diff != "" {
		t.Error(diff)
	}
	_, problems = read(testPipeline("", "name: a\nhosts: [\"local://x\"]") +
		"- name: b\n  environment: {app: {apiVersion: a/v1, kind: K, name: n}, " +
		"targets: [{cluster: x, namespace: y}]}\n")
	if len(problems) > 0 {
		t.Errorf("hosts before an environment, which is judged by its health: %v", problems)
	}
}

// TestTheExampleHasNoWarnings: people meet it first.
func TestTheExampleHasNoWarnings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/hello/waybill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := read(string(text)); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestWarningOfWindowsThatNeverOpen(t *testing.T) {
	t.Parallel()
	for windows, want := range map[string]string{
		`{kind: Allow, schedule: "0 9 * * 1", duration: 1h}, {kind: Deny, schedule: "0 0 * * *", duration: 24h}`: "waybill.yaml:6:13: warning: " +
			"stage \"a\" may never start: no window opens within five years",
		`{kind: Deny, schedule: "* * * * *", duration: 2h}`: "waybill.yaml:6:13: warning: " +
			"stage \"a\" may never start: no window opens within 165 days",
		`{kind: Allow, schedule: "0 9 29 2 *", duration: 1h}`: "",
	} {
		_, problems := read(testPipeline(test, "name: a\nhosts: [\"local://x\"]\nwindows: ["+windows+"]"))
		got := ""
		if warnings := problems.Warnings(); len(warnings) > 0 {
			got = warnings.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" || problems.Err() != nil {
			t.Errorf("%s: %v\n%s", windows, problems.Err(), diff)
		}
	}
}

func TestWarningOfAttemptsShorterThanReady(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]string{
		"attemptTimeout: 30s": "waybill.yaml:6:27: warning: attemptTimeout of stage \"a\" (30s) ends an attempt before a " +
			"service has had its ready.within (1m0s)",
		"attemptTimeout: 61s": "",
		"deadline: 6s": "waybill.yaml:6:21: warning: deadline of stage \"a\" (6s) ends its deploy before a service has " +
			"had its ready.within (1m0s)",
		"deadline: 61s": "",
	} {
		_, problems := read(testPipeline(test, "name: a\nhosts: [\"local://x\"]\nretry: {"+retry+"}"))
		got := ""
		if warnings := problems.Warnings(); len(warnings) > 0 {
			got = warnings.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v\n%s", retry, problems.Err(), diff)
		}
	}
}

func TestWarningOfWindowsShorterThanABake(t *testing.T) {
	t.Parallel()
	window := func(kind, duration string) string {
		return "name: a\nhosts: [\"local://x\"]\nbake: {for: 1h}\nwindows: [{kind: " + kind + ", schedule: '@daily', duration: " +
			duration + "}]"
	}
	for stage, want := range map[string]string{
		window("Allow", "30m"): `waybill.yaml:7:13: warning: a window of stage "a" is shorter (30m0s) than its bake (1h0m0s)`,
		window("Allow", "1h"):  "",
		window("Deny", "30m"):  "",
	} {
		_, problems := read(testPipeline(test, stage))
		got := ""
		if warnings := problems.Warnings(); len(warnings) > 0 {
			got = warnings.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" || problems.Err() != nil {
			t.Errorf("%s: %v\n%s", stage, problems.Err(), diff)
		}
	}
}
