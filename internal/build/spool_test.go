package build

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSpoolsAreReadAsTheyWereWritten also when they come in pieces.
func TestSpoolsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 123_456_789)
	large := strings.Repeat("x", MaxSpoolData+1)
	var spool []byte
	for _, r := range []SpoolRecord{{SpoolStdout, at, []byte("a\x00\n")}, {SpoolNote, at, nil},
		{SpoolStderr, at, []byte(large)}, {SpoolEnd, at, []byte("{}")}} {
		spool = AppendSpool(spool, r)
	}
	var got bytes.Buffer
	for whole := len(spool); len(spool) > 0; {
		for cut := range min(len(spool), spoolHeader) {
			if _, n, err := ParseSpool(spool[:cut]); n != 0 || err != nil {
				t.Fatalf("%d of %d bytes give %d, %v", cut, whole, n, err)
			}
		}
		r, n, err := ParseSpool(spool)
		if err != nil || n == 0 || !r.At.Equal(at) {
			t.Fatalf("got %+v, %d, %v", r, n, err)
		}
		got.WriteByte(byte(r.Kind))
		got.Write(r.Data)
		spool = spool[n:]
	}
	if want := "oa\x00\nn" + "e" + large[1:] + "ex" + "x{}"; got.String() != want {
		t.Errorf("got %d bytes, want %d", got.Len(), len(want))
	}
}

func TestDamagedSpoolsAreRefused(t *testing.T) {
	t.Parallel()
	long := AppendSpool(nil, SpoolRecord{Kind: SpoolStdout})
	long[9] = 0x7f
	for name, spool := range map[string][]byte{"kind": []byte("?"), "length": long} {
		if _, _, err := ParseSpool(spool); !errors.Is(err, ErrSpool) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParseSpool(f *testing.F) {
	f.Add(AppendSpool(nil, SpoolRecord{Kind: SpoolStdout, Data: []byte("text")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, n, err := ParseSpool(data)
		if n > len(data) || len(r.Data) > n || err != nil && n != 0 {
			t.Errorf("got %d bytes of %d, %v", n, len(data), err)
		}
	})
}
