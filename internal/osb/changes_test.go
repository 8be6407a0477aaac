package osb

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangesOfACatalogAreNamed, also those that platforms do not see, such as another handler.
func TestChangesOfACatalogAreNamed(t *testing.T) {
	t.Parallel()
	const file = `services:
  - id: folder
    name: folder
    description: A folder
    plans:
      - {id: small, name: small, description: A small one, handlers: {provision: make, deprovision: remove}}
      - {id: large, name: large, description: A large one, handlers: {provision: make, deprovision: remove}}
`
	const box = `  - {id: box, name: box, description: A box, plans: [{id: crate, name: crate, description: A crate, handlers: {provision: make, deprovision: remove}}]}
`
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"the same", file, file, nil},
		{"a comment", file, "# new\n" + file, nil},
		{"the first", "", file, []string{"plan folder/large added", "plan folder/small added", "service folder added"}},
		{"a service more", file, file + box, []string{"plan box/crate added", "service box added"}},
		{"a service less", file + box, file, []string{"plan box/crate removed", "service box removed"}},
		{"a renamed service", file, strings.Replace(file, "name: folder", "name: files", 1), []string{"service folder changed"}},
		{"another handler", file, strings.Replace(file, "provision: make", "provision: craft", 1), []string{"plan folder/small changed"}},
		{"another price", file, strings.Replace(file, "name: large", "name: large, free: false", 1), []string{"plan folder/large changed"}},
		{"another plan", file, strings.Replace(file, "id: large", "id: huge", 1), []string{"plan folder/huge added", "plan folder/large removed"}},
	} {
		var before *Catalog
		if c.before != "" {
			before = parse(t, c.before)
		}
		if diff := cmp.Diff(c.want, parse(t, c.after).Changes(before)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
