package runner

import (
	"bytes"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// TestLateLinesHaveTheTimeOfTheirWriting by the clock of this computer, however wrong that of the node is.
func TestLateLinesHaveTheTimeOfTheirWriting(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, wrong := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		var c nodeClock
		for i, record := range []struct{ written, read, want int }{
			{0, 2, 2}, // the way takes two seconds
			{10, 10, 10},
			{11, 60, 11}, // read after a cut
			{50, 60, 50},
			{50, 60, 50},
			{40, 61, 50}, // the node's clock was set back
		} {
			if got := c.local(at(record.written).Add(wrong), at(record.read)); !got.Equal(at(record.want)) {
				t.Errorf("%s wrong, record %d: got %s, want %s", wrong, i, got, at(record.want))
			}
		}
	}
}

// entrySink keeps times.
type entrySink struct {
	build.Sink
	at []time.Time
}

func (s *entrySink) Output(entries []build.Entry) error {
	for _, e := range entries {
		s.at = append(s.at, e.At)
	}
	return nil
}

// TestLinesHaveTheTimesOfTheSpool as far apart as they were written.
func TestLinesHaveTheTimesOfTheSpool(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var spool []byte
	for _, ago := range []time.Duration{0, time.Hour} { // the first one is read at once
		spool = build.AppendSpool(spool, build.SpoolRecord{Kind: build.SpoolStdout, At: now.Add(time.Hour - ago), Data: []byte("line\n")})
	}
	spool = build.AppendSpool(spool, build.SpoolRecord{Kind: build.SpoolStderr, At: now.Add(time.Hour), Data: []byte("line\n")})
	sink := &entrySink{}
	log := NewLog(sink, nil)
	defer log.Close()
	if _, err := log.ReadFrom(bytes.NewReader(spool)); err != nil {
		t.Fatal(err)
	}
	if len(sink.at) != 3 || sink.at[0].Before(now) || sink.at[1].Before(sink.at[0]) || sink.at[2].Sub(sink.at[0]) > time.Minute {
		t.Errorf("got %s", sink.at)
	}
}
