package cli

import (
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// resultsPlace locates a build's results.
type resultsPlace struct {
	root     results.Root // of builds that were run by hand; zero with --results-dir
	dir      string
	numbered bool // the build has its number from root
}

// buildPlace numbers the build. A dry run uses up no number.
func (a *app) buildPlace(flags runFlags) (id string, at resultsPlace, err error) {
	if flags.resultsDir != "" {
		id = flags.buildID
		if id == "" {
			id = filepath.Base(flags.resultsDir)
		}
		return id, resultsPlace{dir: a.Path(flags.resultsDir)}, nil
	}
	if at.root, err = results.Default(); err != nil {
		return "", resultsPlace{}, fault.Wrap(fault.Unavailable, err).WithHint("name a folder with --results-dir")
	}
	id = flags.buildID
	switch {
	case flags.dryRun.on() && id == "":
		id = "0"
	case id == "":
		if id, err = at.root.NextID(); err != nil {
			return "", resultsPlace{}, fault.Wrap(fault.Unavailable, err).WithHint("name a folder with --results-dir")
		}
		at.numbered = true
	}
	at.dir = at.root.Dir(id)
	return id, at, nil
}

// giveBack gives back the number of a build that did not begin.
func (p resultsPlace) giveBack(id string) error {
	if !p.numbered {
		return nil
	}
	return p.root.GiveBack(id)
}

// buildName returns what other commands take for a build: its id, or the folder of its results, which has a separator.
func (a *app) buildName(j job) string {
	if j.place.root != (results.Root{}) {
		return j.id
	}
	dir := a.Shorten(filepath.Clean(j.place.dir))
	if !strings.ContainsRune(dir, filepath.Separator) {
		dir += string(filepath.Separator)
	}
	return dir
}

// readLogWith returns the command that prints the log of a build's step, without the step.
func (a *app) readLogWith(j job) string { return "waybill build log " + show.Quote(a.buildName(j)) }

// resumeWith returns the command that resumes a build that failed; "" for one of a snapshot or a commit, whose files do not change.
func (a *app) resumeWith(j job) string {
	switch {
	case j.source.unpacked, j.source.received:
		return ""
	case j.place.root == (results.Root{}):
		return "waybill run --resume=" + show.Quote(a.buildName(j))
	}
	if folder := a.Shorten(j.source.root); folder != "." {
		return "waybill run " + show.Quote(folder) + " --resume"
	}
	return "waybill run --resume"
}
