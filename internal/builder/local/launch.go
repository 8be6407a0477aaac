package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// mostLaunch bounds the bytes of what a provisioner wants built.
const mostLaunch = provisionerv1.MostBody + 64<<10

// standardInput is the name of the standard input where a file is wanted.
const standardInput = "-"

// LaunchOptions are the flags of `waybill run` for a provisioner.
type LaunchOptions struct {
	Path string // path of a provisioner's Launch, as JSON; standardInput: the standard input; "": none has started this process
	provisionerv1.Launch
}

// On reports whether a provisioner has started this process.
func (f LaunchOptions) On() bool { return f.Path != "" }

// readLaunch reads what a provisioner wants built, if one started this process, and sets the corresponding flags.
func (b *Builder) readLaunch(folder string, flags *Options) error {
	if !flags.Launch.On() {
		return nil
	}
	if folder != "" || flags.contradictLaunch() {
		return fault.New(fault.Invalid,
			"--launch wants --results-dir, and excludes a folder, --workspace, --in-place, --dry-run, --resume, --password and --token-file")
	}
	text, err := b.launchText(flags.Launch.Path)
	if err != nil {
		return fault.New(fault.Invalid, "read --launch: %w", file.Plain(err))
	}
	launch := &flags.Launch.Launch
	if err := decodeLaunch(text, launch); err != nil {
		return fault.New(fault.Invalid, "read --launch: %w", err)
	}
	flags.Serve.On, flags.Serve.given = true, launch.Token
	flags.BuildID, flags.Environment, flags.Stages = strconv.FormatInt(launch.BuildID, 10), launch.Environment, launch.Stages
	if launch.File != "" {
		flags.File = launch.File
	}
	if flags.ProjectID = launch.ProjectID; flags.ProjectID == "" && strings.Trim(launch.Project, "0123456789") == "" {
		flags.ProjectID = launch.Project
	}
	for name, value := range launch.Inputs {
		flags.Inputs = append(flags.Inputs, name+"="+value)
	}
	return nil
}

// contradictLaunch reports whether flags contradict a provisioner.
func (f *Options) contradictLaunch() bool {
	return f.Workspace != "" || f.InPlace || f.DryRun.On() || f.Resume != "" || f.ResultsDir == "" ||
		f.Serve.TokenFile != "" || f.hidden != nil
}

// decodeLaunch reads and checks a provisioner's request.
func decodeLaunch(text []byte, launch *provisionerv1.Launch) error {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.DisallowUnknownFields()
	if err := reader.Decode(launch); err != nil || reader.More() {
		return errors.New("want one whole object of JSON, as this version of Waybill knows it") // err may quote a password
	}
	if err := launch.Check(); err != nil {
		return err
	}
	if len(launch.Token) < shortestToken {
		return fmt.Errorf("want a token of at least %d bytes", shortestToken)
	}
	return nil
}

// launchText reads a file that other users cannot, or the standard input to its end.
func (b *Builder) launchText(name string) ([]byte, error) {
	in := os.Stdin
	if name != standardInput {
		opened, info, err := file.Open(b.Path(name))
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		in = opened
		if file.OthersMayUse(info) {
			return nil, fmt.Errorf("other users may use %s, which has secrets: chmod 600 %s", name, name)
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, mostLaunch+1))
	if len(text) > mostLaunch {
		return nil, fmt.Errorf("%s has more than %d bytes", name, mostLaunch)
	}
	return text, err
}
