package deployment

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
)

// verifyLog checks a pipeline's log where it is.
func verifyLog(ctx context.Context, a *cmdline.App, s *assembly.Session, q journal.EntryQuery) error {
	if q.Deployment != 0 {
		return fault.New(fault.Invalid, "a log is checked as a whole, not one deployment of it").WithHint("waybill log %s --verify", q.Pipeline)
	}
	if s.Kind == assembly.Remote {
		return fault.New(fault.Invalid, "a log is checked where it is, not through a server").
			WithHint("waybill log %s --verify, on the server's machine or with --store", q.Pipeline)
	}
	found, err := s.Verify(ctx, q.Pipeline)
	if err != nil {
		return err
	}
	return reportVerification(found, a.Printer())
}

// reportVerification prints the findings; any fault is an error.
func reportVerification(found deployer.Verification, out show.Printer) error {
	text := fmt.Sprintf("%s: entries 1 to %d are whole, and the database agrees with them (%s)", found.Pipeline, found.Entries,
		show.Count(found.Deployments, "deployment"))
	if found.Archived > 0 {
		text = fmt.Sprintf(
			"%s: all %d entries in the log are whole, and the database agrees with them; so are the archives of %d of %s", found.Pipeline,
			found.Entries, found.Archived, show.Count(found.Deployments, "deployment"))
	}
	if len(found.Faults) == 0 {
		return out.Answer(found, append([]string{text}, digestLines(found)...)...)
	}
	if err := out.Answer(found, found.Faults...); err != nil {
		return err
	}
	if found.Damaged == len(found.Faults) { // restoring the database would undo later changes, and bring no archive back
		return fault.New(fault.Failed, "%s: the log is whole, but archives are missing or damaged: %d of %d", found.Pipeline,
			found.Damaged, found.Archived).
			WithHint("copy these from a backup of the blob store; the database is not to be restored")
	}
	return fault.New(fault.Failed, "%s: the log and what the database keeps beside it do not agree", found.Pipeline).
		WithHint("keep a copy (waybill backup FILE), and restore the newest backup that passes this check")
}

// digestLines returns the digest of a log, for comparison with one that was noted earlier or elsewhere, and its gaps.
func digestLines(found deployer.Verification) (lines []string) {
	if found.Uncovered > 0 {
		lines = append(lines,
			fmt.Sprintf("  entries without a digest, of an earlier version: %d; a change of these is not noticed", found.Uncovered))
	}
	if !found.Digest.IsZero() {
		lines = append(lines, fmt.Sprintf("  digest at entry %d: %s", found.Seq, found.Digest))
	}
	return lines
}
