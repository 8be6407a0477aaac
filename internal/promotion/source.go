package promotion

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// revisions holds the revisions that an object reports.
type revisions struct {
	applied, attempted Revision
	nothingApplied     bool   // "" is known: a HelmRelease without a release
	failed             bool   // the history of a HelmRelease ends with a failure, whatever the conditions report
	isSettled          bool   // by the object's own fields the attempted revision is the applied one
	wrong              string // why the revisions cannot be used; "": they can
}

// readRevisions reads the applied and the attempted revision of an object from its source.
func readRevisions(app AppState, source Source) revisions {
	r := readFields(app, source)
	if r.wrong == "" {
		r.wrong = unfit(r.applied)
	}
	if r.wrong == "" {
		r.wrong = unfit(r.attempted)
	}
	return r
}

func readFields(app AppState, source Source) revisions {
	r := revisions{isSettled: app.Applied == app.Attempted}
	if app.HasHistory {
		r = readHistory(app, source)
	}
	switch source.Type {
	case SourceLabel, SourceAnnotation:
		r.applied, r.attempted, r.nothingApplied = Revision(app.Value), "", false
	case SourceOriginRevision:
		r.applied, r.attempted, r.nothingApplied = Revision(app.AppliedOrigin), "", false
	case SourceMarker:
		r.applied, r.attempted, r.nothingApplied = Revision(app.MarkerApplied), Revision(app.MarkerAttempted), false
	case SourceTag, SourceDigest:
		r = r.orFields(app, source).parts(source.Type)
	case SourceRevision, "":
		r = r.orFields(app, source)
	}
	return r
}

// orFields adds the revisions of the object's fields if it has no history.
func (r revisions) orFields(app AppState, source Source) revisions {
	if !app.HasHistory {
		r.applied, r.attempted = Revision(app.Applied), Revision(app.Attempted)
		if app.Helm {
			r.applied, r.attempted = withoutBuild(app.Applied, source), withoutBuild(app.Attempted, source)
		}
	}
	return r
}

// parts returns the tags or the digests of revisions such as v1.2.3@sha1:0a1b.
func (r revisions) parts(of SourceType) revisions {
	cut := func(whole Revision) Revision {
		at := strings.LastIndexByte(string(whole), '@')
		switch {
		case whole == "":
			return ""
		case at < 0:
			r.wrong = fmt.Sprintf("revision %q has no @ between a tag and a digest", whole)
			return ""
		case of == SourceTag:
			return whole[:at]
		}
		return whole[at+1:]
	}
	r.applied, r.attempted = cut(r.applied), cut(r.attempted)
	return r
}

// readHistory reads the history of a HelmRelease, newest release first. After a failure Helm restores the release
// that was deployed before it.
func readHistory(app AppState, source Source) revisions {
	r := revisions{attempted: attemptedOf(app, source)}
	if len(app.History) == 0 {
		r.nothingApplied, r.isSettled = true, app.Attempted == ""
		return r
	}
	newest := app.History[0]
	at := &newest
	switch newest.Status {
	case "deployed":
	case "uninstalled":
		at, r.failed = nil, true
	case "failed":
		r.failed = true
		if older := deployedBefore(app.History); older != nil {
			at = older
		}
	default:
		at = deployedBefore(app.History)
	}
	if at == nil {
		r.nothingApplied, r.isSettled = true, app.Attempted == ""
		return r
	}
	r.applied = valueOf(*at, source)
	r.isSettled = withoutBuild(at.ChartVersion, Source{}) == withoutBuild(app.Attempted, Source{})
	return r
}

// deployedBefore returns the newest deployed release below the newest one.
func deployedBefore(history []Release) *Release {
	for i := 1; i < len(history); i++ {
		if history[i].Status == "deployed" {
			return &history[i]
		}
	}
	return nil
}

// valueOf returns a release's value of a source.
func valueOf(of Release, source Source) Revision {
	switch source.Type {
	case SourceOCIDigest:
		return Revision(of.OCIDigest)
	case SourceAppVersion:
		return Revision(of.AppVersion)
	}
	return withoutBuild(of.ChartVersion, source)
}

// attemptedOf returns the attempted value of a HelmRelease. None is reported of an application's version.
func attemptedOf(app AppState, source Source) Revision {
	switch source.Type {
	case SourceOCIDigest:
		return Revision(app.AttemptedDigest)
	case SourceAppVersion:
		return ""
	}
	return withoutBuild(app.Attempted, source)
}

// withoutBuild cuts the build metadata of a chart's version. helm-controller appends a digest there, which the next
// environment could not request.
func withoutBuild(version string, source Source) Revision {
	if !source.KeepBuild {
		version, _, _ = strings.Cut(version, "+")
	}
	return Revision(version)
}

// unfit returns why a revision cannot be used in files, branches and pages; "": it can.
func unfit(r Revision) string {
	switch {
	case len(r) > maxRevision:
		return fmt.Sprintf("the revision is longer than %d bytes", maxRevision)
	case !utf8.ValidString(string(r)):
		return "the revision is not valid UTF-8"
	}
	for _, c := range r {
		if !unicode.IsPrint(c) {
			return fmt.Sprintf("the revision has the character %U", c)
		}
	}
	return ""
}
