package journal

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

const digestPage = 10_000 // entries that CheckDigests reads at a time

// CheckDigests compares the entries of all pipelines with their digests and returns the differences, such as that
// entry 7 of greeter was changed. Archives are not compared.
func CheckDigests(t Rows) (faults []string, err error) {
	heads, err := t.Heads(nil)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		var check pipeline.DigestCheck
		for q := (EntryQuery{Pipeline: h.Pipeline, Limit: digestPage, Digests: true}); ; {
			entries, err := t.Entries(q)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				check.Add(e)
				q.After = e.Seq
			}
			if len(entries) < digestPage {
				break
			}
		}
		for _, fault := range check.Check(h.Seq, h.Digest, h.Archived) {
			faults = append(faults, fmt.Sprintf("%s: %s", h.Pipeline, fault))
		}
	}
	return faults, nil
}
