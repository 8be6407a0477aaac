package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// secretPrefix begins the environment variables that have secrets of builds.
const secretPrefix = "WAYBILL_SECRET_"

// maxSecrets bounds a file of secrets, in bytes.
const maxSecrets = 1 << 20

// giveSecrets gives a plan the secrets that its steps name.
func (a *app) giveSecrets(plan *build.Plan, flags runFlags) error {
	if !slices.ContainsFunc(plan.Steps, func(s build.PlanStep) bool { return len(s.Secrets) > 0 }) {
		return nil
	}
	values, err := a.secrets(flags)
	if err != nil {
		return err
	}
	problems := plan.SetSecrets(values)
	if err := problems.Err(); err != nil {
		return err
	}
	a.printProblems(problems)
	return nil
}

// secrets returns the secrets that steps may name: those of the environment, else those of default.env in the folder of secrets.
func (a *app) secrets(flags runFlags) (map[string]string, error) {
	found, err := a.readSecrets(flags.secretsDir)
	if err != nil {
		return nil, err
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if name, ok := strings.CutPrefix(name, secretPrefix); ok {
			found[name] = value
		}
	}
	return found, nil
}

// readSecrets reads default.env of a folder; "" is the user's own folder, which need not be there.
func (a *app) readSecrets(dir string) (map[string]string, error) {
	path := filepath.Join(a.Path(dir), "default.env")
	if dir == "" {
		own, err := os.UserConfigDir()
		if err != nil {
			return map[string]string{}, nil //nolint:nilerr // this user has none
		}
		path = filepath.Join(own, "waybill", "secrets", "default.env")
	}
	data, err := a.ReadTrusted(path, maxSecrets)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir == "":
		return map[string]string{}, nil
	case errors.Is(err, assembly.ErrForeign):
		return nil, fault.New(fault.Refused, "%s belongs to another user", path)
	case err != nil:
		return nil, fault.New(fault.Invalid, "read the secrets in %s: %w", path, assembly.Plain(err))
	case len(data) > maxSecrets:
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", path, maxSecrets)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Refused, "other users may read %s (mode %04o)", path, info.Mode().Perm()).WithHint("chmod 600 %s", path)
	}
	return parseSecrets(a.Shorten(path), string(data))
}

// parseSecrets reads lines such as TOKEN=value. Empty lines and those that begin with # say nothing; a value is the rest of its line.
func parseSecrets(shown, text string) (map[string]string, error) {
	found := map[string]string{}
	var problems fault.Problems
	line := 0
	for each := range strings.Lines(text) {
		line++
		each = strings.TrimRight(each, "\r\n")
		if strings.TrimSpace(each) == "" || strings.HasPrefix(each, "#") {
			continue
		}
		name, value, ok := strings.Cut(each, "=")
		if !ok || name == "" {
			problems.Add(fault.Problem{Position: fault.Position{File: shown, Line: line, Column: 1}, Code: "secret-line", Text: "want NAME=value"})
			continue
		}
		found[name] = value
	}
	return found, problems.Err()
}
