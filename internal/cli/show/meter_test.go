package show

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// slowly takes half a frame for each read of 250 kB.
type slowly struct{ left int }

func (r *slowly) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	<-time.After(FrameEvery / 2)
	r.left--
	return min(len(p), 250_000), nil
}

// TestAMeterShowsHowMuchWasRead in place, and leaves nothing behind.
func TestAMeterShowsHowMuchWasRead(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := Printer{Out: &out, Screen: &Screen{Out: &out}}
		m := NewMeter(p, "uploading arm64", 1_000_000, &slowly{left: 4})
		for buffer := make([]byte, 300_000); ; {
			if _, err := m.Read(buffer); err != nil {
				break
			}
		}
		m.Close()
		frames := strings.Split(out.String(), "\x1b[?25l\r")
		if len(frames) != 4 || !strings.Contains(frames[1], "uploading arm64  500.0 kB of 1.0 MB  50 %") ||
			!strings.Contains(frames[2], "100 %") || frames[3] != "\x1b[1A\x1b[J\x1b[?25h" {
			t.Errorf("got %q", frames)
		}
		out.Reset()
		p.JSON = true
		if _, err := io.Copy(io.Discard, NewMeter(p, "uploading", 0, &slowly{left: 3})); err != nil || out.Len() > 0 {
			t.Errorf("beside JSON: %q, %v", out.String(), err)
		}
	})
}
