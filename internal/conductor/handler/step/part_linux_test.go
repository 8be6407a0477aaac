package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// big is the content of a large file, which no compression makes smaller. The tests share it, and do not change it.
var big = sync.OnceValue(func() []byte {
	source, out := rand.NewChaCha8([32]byte{7}), make([]byte, large+large/2)
	_, _ = source.Read(out) // never fails
	return out
})

// TestALargeContentIsResumed: an attempt that is cut off in the middle of a large file leaves the bytes that have
// arrived, and the next one sends the rest; a part that is damaged is sent again.
func TestALargeContentIsResumed(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		big := big()
		sum := sha256.Sum256(big)
		name := hex.EncodeToString(sum[:])
		w.register(1, "greeter.tar.gz", pack(t, map[string]string{"data/big": string(big), "greeter*": "#!/bin/sh\n" + forever + "\n"}))
		part := filepath.Join(w.dir, ".waybill", "parts", name)

		ctx, cut := context.WithCancelCause(t.Context())
		go func() {
			until(t, "a part is there", func() bool { info, err := os.Stat(part); return err == nil && info.Size() > 0 })
			cut(errors.New("cut"))
		}()
		first := w.do(ctx, 1, pipeline.HostReplicated)
		t.Logf("the first attempt: %s %s", first.Kind, first.Error)
		if first.Kind != action.Done { // it may have been quicker
			until(t, "the program of the first attempt ends", func() bool { return len(w.programs()) == 0 })
		}

		// Half of it is there, and then half of it with a byte that is not as it was sent.
		for _, damage := range []bool{false, true} {
			w.forget(name)
			half := bytes.Clone(big[:large/2])
			if damage {
				half[1000] ^= 1
			}
			if err := os.MkdirAll(filepath.Dir(part), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(part, half, 0o644); err != nil {
				t.Fatal(err)
			}
			if damage {
				w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Retry, "was damaged on its way")
				if s := w.state(); s.Deployment != "greeter#1" {
					t.Errorf("the fence names %q, want the deployment", s.Deployment)
				}
			}
			out := w.done(1, pipeline.HostReplicated)
			small := int64(len("#!/bin/sh\n" + forever + "\n"))
			want := int64(len(big)) - large/2
			if damage {
				want = int64(len(big))
			}
			if out.Sent != want && out.Sent != want+small {
				t.Errorf("damaged %v: %d bytes were sent, want %d", damage, out.Sent, want)
			}
			if got, err := os.ReadFile(filepath.Join(w.dir, "releases", w.release(1), "data", "big")); err != nil || !bytes.Equal(got, big) {
				t.Errorf("damaged %v: the file is not what was sent: %v", damage, err)
			}
		}
		w.done(1, pipeline.HostDeployed)
		if _, err := os.Stat(filepath.Dir(part)); err == nil {
			t.Error("parts stay after the deployment")
		}
	})
}

// forget removes a content, and the releases that have it, from the host.
func (w *world) forget(content string) {
	w.t.Helper()
	for _, name := range []string{"releases/" + w.release(1), "cas/" + content} {
		if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}
