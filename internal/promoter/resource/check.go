package resource

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// maxRevision bounds the bytes of a revision.
const maxRevision = 256

// duration reads a duration from least up.
func (r *reader) duration(field string, d v1alpha1.Duration, standard, least time.Duration) time.Duration {
	if d == "" {
		return standard
	}
	v, err := definition.ParseDuration(string(d))
	switch {
	case err != nil:
		r.add(field, "want a duration such as 30m, found %.50q", d)
	case v < least || v > longest:
		r.add(field, "want %s to 366d, found %.50q", least, d)
	default:
		return v
	}
	return standard
}

// oneOf returns a value of an enumeration; the first one is the default.
func oneOf[T ~string](r *reader, field string, value T, values ...T) T {
	if value == "" {
		return values[0]
	}
	if !slices.Contains(values, value) {
		r.add(field, "want one of %s, found %.50q", join(values), value)
		return values[0]
	}
	return value
}

func join[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// capped returns the first items of a list that may be too long.
func capped[T any](r *reader, field string, list []T, most int) []T {
	if len(list) > most {
		r.add(field, "%d items, at most %d", len(list), most)
		return list[:most]
	}
	return list
}

// required reports a name that is empty, too long or not visible.
func (r *reader) required(field, name string) {
	switch {
	case name == "":
		r.add(field, "must not be empty")
	case len(name) > maxName || hasUnseen(name):
		r.add(field, "%.100q: want at most %d visible characters", name, maxName)
	}
}

// secret reads the name of a Secret; "" if there is none.
func (r *reader) secret(field string, ref *v1alpha1.LocalObjectReference) string {
	if ref == nil {
		return ""
	}
	if !isObjectName(ref.Name) {
		r.add(field+".name", "%.100q is not the name of a Secret", ref.Name)
	}
	return ref.Name
}

// texts reads a list of short names.
func (r *reader) texts(field string, list []string) []string {
	list = capped(r, field, list, maxItems)
	for i, item := range list {
		r.required(fmt.Sprintf("%s[%d]", field, i), item)
	}
	return list
}

// httpURL checks the address of a request.
func (r *reader) httpURL(field, address string) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", hasControl(address), len(address) > maxURL:
		r.add(field, "want a URL such as https://example.net/hook of at most %d bytes", maxURL)
	case u.User != nil:
		r.add(field, "a user or password does not belong in an address")
	}
}

// windows reads windows, each of which starts some day.
func (r *reader) windows(at string, list []v1alpha1.Window) (out admission.Windows) {
	for i, w := range capped(r, at, list, admission.MaxWindows) {
		at := fmt.Sprintf("%s[%d]", at, i)
		if w.Kind == "" {
			r.add(at+".kind", "must not be empty")
		}
		one := admission.Window{
			Kind:     oneOf(r, at+".kind", cron.Kind(w.Kind), cron.Allow, cron.Deny),
			Schedule: w.Schedule, Timezone: w.Timezone, Reason: w.Reason,
			Duration: action.Duration(r.duration(at+".duration", w.Duration, time.Hour, time.Minute)),
		}
		if w.Duration == "" {
			r.add(at+".duration", "must not be empty")
		}
		if len(w.Reason) > maxReason || hasControl(w.Reason) {
			r.add(at+".reason", "want at most %d bytes without control characters", maxReason)
		}
		if len(w.Schedule) > maxName || len(w.Timezone) > maxName {
			r.add(at+".schedule", "longer than %d bytes", maxName)
			continue
		}
		parsed, field, err := admission.ParseWindows([]admission.Window{one})
		if err != nil {
			r.add(at+strings.TrimPrefix(field, "windows[0]"), "%v", err)
			continue
		}
		if start := parsed[0].Start.Next(r.Now, parsed[0].Zone); start.IsZero() || start.Sub(r.Now) > cron.Horizon {
			r.add(at+".schedule", "%q does not start within five years", w.Schedule)
			continue
		}
		out = append(out, parsed...)
	}
	return out
}

// isObjectName reports whether the API could have an object of that name.
func isObjectName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// hasControl reports whether a text has control characters or is not valid UTF-8.
func hasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}

// hasUnseen reports whether a name has characters that are not drawn.
func hasUnseen(name string) bool {
	_, found := pipeline.Unseen(name)
	return found || hasControl(name)
}
