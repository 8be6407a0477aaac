package local

import (
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// resultsPlace locates a build's results.
type resultsPlace struct {
	root     results.Root // root of builds that were run by hand; zero with --results-dir
	dir      string
	numbered bool // the build has its number from root
}

// buildPlace numbers the build. A dry run uses up no number.
func (b *Builder) buildPlace(flags Options) (id string, at resultsPlace, err error) {
	if flags.ResultsDir != "" {
		id = flags.BuildID
		if id == "" {
			id = filepath.Base(flags.ResultsDir)
		}
		return id, resultsPlace{dir: b.Path(flags.ResultsDir)}, nil
	}
	if at.root, err = results.Default(); err != nil {
		return "", resultsPlace{}, fault.Wrap(fault.Unavailable, err).WithHint("name a folder with --results-dir")
	}
	id = flags.BuildID
	switch {
	case flags.DryRun.On() && id == "":
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
