package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// Plural returns a number with its noun, such as 1 host or 12 hosts.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShortDigest returns the beginning of a digest in hexadecimal.
func ShortDigest(hex string) string { return hex[:min(8, len(hex))] }

// BelowPipeline returns a target without its pipeline, such as prod/east/elm.
func BelowPipeline(target string) string {
	if _, rest, found := strings.Cut(target, "/"); found {
		return rest
	}
	return target
}

// Join returns words as a list.
func Join(words []string) string { return strings.Join(words, ", ") }

// PrettyJSON returns JSON with line breaks.
func PrettyJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clock returns the time of day in UTC. The script replaces it by the time in the reader's zone,
// with the zone in its title.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// when returns the day and the time.
func when(t time.Time) string { return t.UTC().Format("2 Jan 15:04 UTC") }

// moment returns the day and the time with seconds.
func moment(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05 UTC") }

// Took returns the time between two moments for people.
func Took(from, to time.Time) string { return service.Took(to.Sub(from)) }
