package mirror

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
)

// noise returns a text of a size that nothing compresses.
func noise(t *testing.T, size int) string {
	t.Helper()
	bytes := make([]byte, size)
	if _, err := rand.Read(bytes); err != nil {
		t.Fatal(err)
	}
	return string(bytes)
}

// openBounded opens a store whose mirrors take at most so many bytes.
func openBounded(t *testing.T, most int64) *Store {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), MostBytes: most})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keepAll(string) bool { return false }

// A repository over the bound fails for good, and leaves nothing of it on the disk, however often it is tried.
func TestARepositoryThatIsTooLargeLeavesTheDiskFree(t *testing.T) {
	t.Parallel()
	files := fleet()
	files["image.bin"] = noise(t, 3<<20)
	h := newHost(t, files)
	s := openBounded(t, 1<<20)
	for range 2 {
		_, err := s.Propose(t.Context(), h.request("6.6.0"))
		failed, ok := errors.AsType[*Error](err)
		if !ok || failed.Class != Fatal || failed.Reason != TooLarge ||
			failed.Text != "the repository is too large: the newest commits of its branches take more than 1 MiB" {
			t.Fatalf("got %#v", err)
		}
		if size, err := sizeOf(s.Dir, keepAll); size > 64<<10 || err != nil {
			t.Errorf("%d bytes are left, %v", size, err)
		}
	}
}

// Fetches that a mirror has gathered do not count against the repository: it is made again.
func TestAMirrorThatHasGatheredTooMuchIsMadeAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := openBounded(t, 3<<20)
	for range 5 {
		h.Write(map[string]string{"image.bin": noise(t, 1<<20)})
		h.Commit("main")
		if r := propose(t, s, h.request("6.6.0")); len(r.Lines) != 2 {
			t.Errorf("%+v", r)
		}
		if size, err := sizeOf(s.Dir, keepAll); size > 4<<20 || err != nil {
			t.Errorf("the mirror has %d bytes, %v", size, err)
		}
	}
}

// A mirror without room for an edit, though it needs no fetch, is made again too.
func TestAMirrorWithoutRoomForAnEditIsMadeAgain(t *testing.T) {
	t.Parallel()
	files := fleet()
	const marked = `version: "6.5.4" # {"$promotion": "apps:podinfo:prod"}`
	files["clusters/prod/large.yaml"] = marked + "\n# " + hex.EncodeToString([]byte(noise(t, 200<<10))) + "\n"
	h := newHost(t, files)
	s := open(t)
	propose(t, s, h.request("6.6.0"))
	size, err := sizeOf(s.Dir, keepAll)
	if err != nil {
		t.Fatal(err)
	}
	s.MostBytes = size + 1
	if r := propose(t, s, h.request("6.7.0")); !r.Pushed {
		t.Errorf("%+v", r)
	}
}
