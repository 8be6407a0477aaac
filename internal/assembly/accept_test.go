package assembly

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
)

// inGit runs git in a folder.
func inGit(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, arguments...)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
}

// TestAHomeThatCameWithAProjectIsRefused, whichever of its files came.
func TestAHomeThatCameWithAProjectIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{configFile, "waybill.db", "known_hosts", "token", "address", idFile, "hosts/h1/x"} {
		dir := t.TempDir()
		p := placeIn(dir, nil)
		write(t, filepath.Join(dir, HomeName, filepath.FromSlash(name)), "#\n")
		_, err := p.Open(t.Context(), dir, Existing)
		wantFault(t, err, fault.Invalid, "the home .waybill was not made by Waybill on this machine")
		if hint := fault.HintOf(err); !strings.Contains(hint, "waybill config accept") {
			t.Errorf("hint %q", hint)
		}
		_, err = p.KindOf(dir)
		wantFault(t, err, fault.Invalid, "was not made")
		_, _, err = p.OpenScratch(t.Context(), dir)
		if err == nil && name != configFile && name != "waybill.db" {
			continue // a plan without a log reads nothing of the home
		}
		wantFault(t, err, fault.Invalid, "was not made")
		named := p
		named.Flags.Home = HomeName
		if err := named.TrustHome(named.HomeOf(dir)); err != nil {
			t.Errorf("a home that is named: %v", err)
		}
		p.Ask = func(context.Context, string) bool { return true }
		if err := p.TrustHome(p.HomeOf(dir)); err != nil {
			t.Errorf("after a yes: %v", err)
		}
		p.Ask = nil
		if err := p.TrustHome(p.HomeOf(dir)); err != nil {
			t.Errorf("once it is accepted: %v", err)
		}
	}
}

func TestAHomeThatWaybillMadeCountsWhereverItIsMovedTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write(t, filepath.Join(first, ProjectFile), "")
	p := placeIn(first, map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state")})
	s, err := p.Open(t.Context(), first, Create)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := os.Rename(first, second); err != nil {
		t.Fatal(err)
	}
	if err := p.TrustHome(p.HomeOf(second)); err != nil {
		t.Error(err)
	}
	link := filepath.Join(dir, "third")
	write(t, filepath.Join(link, ProjectFile), "")
	if err := os.Symlink(filepath.Join(second, HomeName), filepath.Join(link, HomeName)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, p.TrustHome(p.HomeOf(link)), fault.Invalid, "was not made by Waybill on this machine")
	other := placeIn(first, map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "another account")})
	wantFault(t, other.TrustHome(other.HomeOf(second)), fault.Invalid, "was not made by Waybill on this machine")
}

// homeInRepository makes a repository with a home.
func homeInRepository(t *testing.T) (string, Place, Home) {
	t.Helper()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	s, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	inGit(t, dir, "init", "-q")
	return dir, p, p.HomeOf(dir)
}

func TestWhatGitBringsIntoAHomeIsAcceptedByItsContent(t *testing.T) {
	t.Parallel()
	dir, p, h := homeInRepository(t)
	write(t, h.file(configFile), "server: {}\n")
	if err := p.TrustHome(h); err != nil {
		t.Errorf("the user's own file: %v", err)
	}
	inGit(t, dir, "add", ".waybill")
	wantFault(t, p.TrustHome(h), fault.Invalid, "git tracks .waybill/server.yaml, whose content has not been accepted")
	named := p
	named.Flags.Config = filepath.Join(HomeName, configFile)
	if err := named.TrustHome(h); err != nil {
		t.Errorf("a server.yaml that is named: %v", err)
	}
	if err := p.Accept(h); err != nil {
		t.Fatal(err)
	}
	if err := p.TrustHome(h); err != nil {
		t.Errorf("an accepted content: %v", err)
	}
	write(t, h.file(configFile), "server: {listen: 127.0.0.1:1}\n") // as a checkout of another branch does
	wantFault(t, p.TrustHome(h), fault.Invalid, "git tracks .waybill/server.yaml, whose content has not been accepted")
	if err := os.Remove(h.file(configFile)); err != nil {
		t.Fatal(err)
	}
	if err := p.TrustHome(h); err != nil {
		t.Errorf("a tracked file that was removed: %v", err)
	}
	inGit(t, dir, "add", "-f", ".waybill/waybill.db")
	for _, err := range []error{p.TrustHome(h), p.Accept(h)} {
		wantFault(t, err, fault.Invalid, "git tracks .waybill/waybill.db, which only Waybill may write")
	}
}

// TestAHomeWithTheIDOfAnotherIsRefused: an archive can bring a link to the id of a home that counts.
func TestAHomeWithTheIDOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	write(t, filepath.Join(own, ProjectFile), "")
	write(t, filepath.Join(other, HomeName, configFile), "server: {}\n")
	p := placeIn(own, map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state")})
	s, err := p.Open(t.Context(), own, Create)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := os.Symlink(filepath.Join(own, HomeName, idFile), filepath.Join(other, HomeName, idFile)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, p.TrustHome(p.HomeOf(other)), fault.Invalid, "was not made by Waybill on this machine")
	if err := p.Accept(p.HomeOf(other)); err == nil {
		t.Error("the other home was accepted under the id of the first")
	}
}

// TestAFileThatIgnoresNothingIsNotTakenOver: with the .gitignore of a clone, a home that Waybill makes could be
// committed, or the file written where a link leads.
func TestAFileThatIgnoresNothingIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(dir, ignore string) error{
		"empty": func(_, ignore string) error { return os.WriteFile(ignore, nil, 0o600) },
		"link":  func(dir, ignore string) error { return os.Symlink(filepath.Join(dir, "planted"), ignore) },
	} {
		dir := t.TempDir()
		p := placeIn(dir, nil)
		if err := os.Mkdir(filepath.Join(dir, HomeName), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := bring(dir, filepath.Join(dir, HomeName, ignoreFile)); err != nil {
			t.Fatal(err)
		}
		_, err := p.Open(t.Context(), dir, Create)
		wantFault(t, err, fault.Invalid, "the home .waybill was not made by Waybill on this machine")
		named := p
		named.Flags.Home = HomeName
		if err := named.CreateHome(named.HomeOf(dir)); err != nil {
			t.Errorf("%s, in a home that is named: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "planted")); err == nil {
			t.Error("a file was written where the link leads")
		}
	}
}

// TestARepositoryThatGitRefusesBringsWhatIsNotAccepted: git may have brought a file before it refused the repository.
func TestARepositoryThatGitRefusesBringsWhatIsNotAccepted(t *testing.T) {
	t.Parallel()
	dir, p, h := homeInRepository(t)
	write(t, filepath.Join(dir, ".git", "config"), "[core\n")
	if err := p.TrustHome(h); err != nil {
		t.Errorf("what Waybill made: %v", err)
	}
	write(t, h.file(configFile), "server: {}\n")
	wantFault(t, p.TrustHome(h), fault.Invalid, "server.yaml, whose content has not been accepted")
	if err := p.Accept(h); err != nil {
		t.Fatal(err)
	}
	if err := p.TrustHome(h); err != nil {
		t.Errorf("once it is accepted: %v", err)
	}
}

func TestAHomeIsNotMadeWhereItCannotBeNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "state"), "a file")
	p := placeIn(dir, map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state")})
	_, err := p.Open(t.Context(), dir, Create)
	wantFault(t, err, fault.Unavailable, "note that the home "+filepath.Join(dir, HomeName)+" is trusted")
	p.Flags.Home = "own"
	s, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatalf("a home that is named: %v", err)
	}
	s.Close()
}
