package config

import (
	"strings"
	"testing"
)

func TestTheCommitterIsThatOfTheConfiguration(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte("promoter: {committer: {name: Fleet bot, email: fleet@example.org}}\n"))
	if err != nil || c.Promoter.Committer.Name != "Fleet bot" || c.Promoter.Committer.Email != "fleet@example.org" {
		t.Errorf("got %+v, %v", c.Promoter, err)
	}
	for text, want := range map[string]string{
		`{name: ""}`:        "promoter.committer.name: want a name",
		`{name: "a <b>"}`:   "want a name",
		`{name: "a\nb"}`:    "want a name",
		`{email: fleet}`:    "promoter.committer.email: want an address",
		`{email: "a@b> c"}`: "want an address",
		`{email: " a@b"}`:   "want an address",
		`{address: a@b}`:    "address",
		`{name: "` + strings.Repeat("x", 300) + `"}`: "of at most 200 bytes",
	} {
		if _, err := Read("server.yaml", []byte("promoter: {committer: "+text+"}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}
