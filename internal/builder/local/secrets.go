package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// secretPrefix begins the environment variables that have secrets of builds.
const secretPrefix = "WAYBILL_SECRET_"

// maxSecrets bounds a file of secrets, in bytes.
const maxSecrets = 1 << 20

// giveSecrets gives a plan the secrets that its steps want, and returns those that are missing as problems. With --runner kubernetes the
// cluster has those that are its objects.
func (b *Builder) giveSecrets(plan *build.Plan, flags Options) (fault.Problems, error) {
	if flags.Runner == RunnerKubernetes {
		plan.LeaveSecrets()
	}
	files := map[string]map[string]string{}
	for _, name := range plan.SecretFiles() {
		found, err := b.readSecrets(flags.SecretsDir, flags.Launch.ProjectID, name)
		if err != nil {
			return nil, err
		}
		if name == build.DefaultSecrets {
			found = withEnvironment(found)
		}
		if found != nil {
			files[name] = found
		}
	}
	return plan.SetSecrets(files), nil
}

// withEnvironment adds the secrets of the environment, which win.
func withEnvironment(found map[string]string) map[string]string {
	if found == nil {
		found = map[string]string{}
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if name, ok := strings.CutPrefix(name, secretPrefix); ok {
			found[name] = value
		}
	}
	return found
}

// readSecrets reads NAME.env of a folder; "" is the user's own folder. Without such a file it returns nil, but
// default.env of a folder that was named must be there. A project that a provisioner gave a number has a folder of its
// own in there, and is given nothing else.
func (b *Builder) readSecrets(dir, project, name string) (map[string]string, error) {
	folder := b.Path(dir)
	if dir == "" {
		own, err := os.UserConfigDir()
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // this user has none
		}
		folder = filepath.Join(own, "waybill", "secrets")
	}
	if project != "" {
		folder = filepath.Join(folder, "project-"+project)
	}
	path := filepath.Join(folder, name+".env")
	data, err := b.ReadTrusted(path, maxSecrets)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (dir == "" || project != "" || name != build.DefaultSecrets):
		return nil, nil //nolint:nilnil // SetSecrets reports which file is missing
	case errors.Is(err, file.ErrForeign):
		return nil, fault.New(fault.Refused, "%s belongs to another user", path)
	case err != nil:
		return nil, fault.New(fault.Invalid, "read the secrets in %s: %w", path, file.Plain(err))
	case len(data) > maxSecrets:
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", path, maxSecrets)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Refused, "other users may read %s (mode %04o)", path, info.Mode().Perm()).WithHint("chmod 600 %s", path)
	}
	return parseSecrets(b.Shorten(path), string(data))
}

// parseSecrets reads lines such as TOKEN=value. Empty lines and those that begin with # are ignored; a value is the
// rest of its line.
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
