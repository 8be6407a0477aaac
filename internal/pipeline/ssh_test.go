package pipeline

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// overSSH returns greeter with one ssh host, oak, in its first stage of hosts.
func overSSH(s SSH) Definition {
	d := greeter()
	d.SSH = &s
	d.Stages[1].Groups[0].Hosts[0].URL = "ssh://deploy@oak.example.net:22"
	return d
}

// TestSudoStaysWhileADeploymentIsInside: it decides the account and the folder. Another way to the host is let in, and every
// change is in the words.
func TestSudoStaysWhileADeploymentIsInside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next    SSH
		words   []string
		refused string
	}{
		"same":     {SSH{Identity: "a"}, nil, ""},
		"identity": {SSH{Identity: "b"}, []string{"ssh identity a -> b"}, ""},
		"none":     {SSH{}, []string{"ssh identity a -> none"}, ""},
		"jump": {SSH{Identity: "a", Jump: "ssh://me@b:22", JumpKey: "SHA256:x"},
			[]string{"ssh jump none -> ssh://me@b:22", "ssh jumpKey none -> SHA256:x"}, ""},
		"known": {SSH{Identity: "a", KnownHosts: "k"}, []string{"ssh knownHosts none -> k"}, ""},
		"with sudo": {SSH{Identity: "a", Sudo: true}, []string{"ssh sudo false -> true"},
			"sudo cannot change while greeter#1 is inside at oak: wait until it has ended, or cancel it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, overSSH(SSH{Identity: "a"}))
			w.create(1, 1)
			w.decide()
			w.done(StepKey{1, "greeter/build", BuildCompleted})
			if before := w.engine.Edit(2, compiled(t, overSSH(c.next)), w.newest(), w.now); len(before.Refused) != 0 {
				t.Errorf("before the host is started: %v", before.Refused)
			}
			w.decide() // starts oak
			edit := w.engine.Edit(2, compiled(t, overSSH(c.next)), w.newest(), w.now)
			if !slices.Equal(edit.Words, c.words) {
				t.Errorf("words %q, want %q", edit.Words, c.words)
			}
			var refused []string
			for _, p := range edit.Refused {
				refused = append(refused, p.Text)
				if p.Scope != "ssh.sudo" {
					t.Errorf("at %s", p.Scope)
				}
			}
			if strings.Join(refused, "; ") != c.refused {
				t.Errorf("refused %q, want %q", refused, c.refused)
			}
		})
	}
}

// TestSudoOfLocalHostsMeansNothing so it may change at any time.
func TestSudoOfLocalHostsMeansNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	w.create(1, 1)
	w.decide()
	w.done(StepKey{1, "greeter/build", BuildCompleted})
	w.decide()
	next := greeter()
	next.SSH = &SSH{Sudo: true}
	if edit := w.engine.Edit(2, compiled(t, next), w.newest(), w.now); len(edit.Refused) != 0 {
		t.Errorf("%v", edit.Refused)
	}
}

// TestDifferenceKnowsEveryFieldOfADefinition so that no change of one is "no change to what runs". The name is not changed by
// an edit.
func TestDifferenceKnowsEveryFieldOfADefinition(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[SSH]().NumField() {
		var s SSH
		fill(t, reflect.ValueOf(&s).Elem().Field(i))
		if words := difference(&Definition{}, &Definition{SSH: &s}); len(words) == 0 {
			t.Errorf("ssh: %s is not in the difference", reflect.TypeFor[SSH]().Field(i).Name)
		}
	}
	for i := range reflect.TypeFor[Definition]().NumField() {
		name := reflect.TypeFor[Definition]().Field(i).Name
		if name == "Pipeline" || name == "SSH" { // whose fields are above
			continue
		}
		var next Definition
		fill(t, reflect.ValueOf(&next).Elem().Field(i))
		if words := difference(&Definition{}, &next); len(words) == 0 {
			t.Errorf("%s is not in the difference", name)
		}
	}
}

// fill gives a field a value that is not zero.
func fill(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(1)
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("y"))
	case reflect.Struct:
		fill(t, field.Field(0))
	default:
		t.Fatalf("a %s: teach this test about it", field.Kind())
	}
}

// TestAPlaceIsReachedAsAnotherVersionSays: the account and what moves its files stay.
func TestAPlaceIsReachedAsAnotherVersionSays(t *testing.T) {
	t.Parallel()
	d := overSSH(SSH{Identity: "a", Sudo: true})
	at, _ := d.Place("greeter/beta/all/oak")
	next := overSSH(SSH{Jump: "ssh://me@b:22"})
	next.Stages[1].Groups[0].Hosts[0].HostKey = "SHA256:x"
	next.Stages[1].Groups[0].Hosts[0].Root = "/elsewhere"
	now := at.ReachedAs(&next)
	if want := (SSH{Jump: "ssh://me@b:22", Sudo: true}); *now.SSH != want || now.Host.HostKey != "SHA256:x" || now.Host.Root != "" {
		t.Errorf("%+v, %+v", now.SSH, now.Host)
	}
	if d.SSH.Identity != "a" || d.Stages[1].Groups[0].Hosts[0].HostKey != "" {
		t.Error("the definition has changed")
	}
	next.Stages[1].Groups[0].Hosts[0].URL = "ssh://root@oak.example.net:22"
	if now := at.ReachedAs(&next); now.SSH != at.SSH || now.Host != at.Host {
		t.Errorf("another account: %+v, %+v", now.SSH, now.Host)
	}
}
