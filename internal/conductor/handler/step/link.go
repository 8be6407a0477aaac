package step

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// maxLinks bounds the links that one link may lead through, as on Linux.
const maxLinks = 40

// checkLinks refuses a link that leads out of the release. The text of a target does not show where it leads, since
// each of its parts may be a link of the archive itself: "a/b/.." is not "a" where a/b is one.
func checkLinks(ctx context.Context, m manifest) error {
	entries := make(map[string]entry, len(m))
	for _, e := range m {
		entries[e.path] = e
	}
	for _, e := range m {
		if e.kind != kindLink {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fault := faultOf(e.target); fault != "" {
			return fmt.Errorf("entry %q is a link whose target %s", e.path, fault)
		}
		if err := checkLink(entries, e); err != nil {
			return fmt.Errorf("entry %q is a link to %q, which %w", e.path, e.target, err)
		}
	}
	return nil
}

// checkLink follows a link part by part, as the host's kernel would.
func checkLink(entries map[string]entry, link entry) error {
	if link.target == "" {
		return fmt.Errorf("is empty")
	}
	at, ahead := path.Dir(link.path), link.target
	for followed := 0; ahead != ""; {
		if path.IsAbs(ahead) {
			return fmt.Errorf("leaves the release")
		}
		var part string
		part, ahead, _ = strings.Cut(ahead, "/")
		ahead = strings.TrimLeft(ahead, "/")
		next := path.Join(at, part)
		switch {
		case part != "..":
		case at == ".":
			return fmt.Errorf("leaves the release")
		case !entries[at].isFolder(): // its outcome on the host is not known here, and ".." counts from there
			return fmt.Errorf("goes up from %q, which is not a folder of the archive", at)
		}
		if there := entries[next]; there.kind == kindLink {
			if followed++; followed > maxLinks {
				return fmt.Errorf("leads through more than %d links", maxLinks)
			}
			ahead, next = there.target+"/"+ahead, at
		}
		at = next
	}
	return nil
}
