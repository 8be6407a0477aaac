package build

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// SpoolKind is the kind of a spool's record.
type SpoolKind byte

// Kinds of records.
const (
	SpoolStdout SpoolKind = 'o'
	SpoolStderr SpoolKind = 'e'
	SpoolNote   SpoolKind = 'n' // a remark of Waybill's
	SpoolEnd    SpoolKind = 'x' // the last record, a SpoolTrailer in JSON
)

// MaxSpoolData is the most bytes of a record's data.
const MaxSpoolData = 64 << 10

// SpoolRecord is the result of one read of a step's output. A spool is a file of records, which another process reads
// while it is written: it keeps the bytes of both streams as they came, in one order.
type SpoolRecord struct {
	Kind SpoolKind
	At   time.Time
	Data []byte
}

// SpoolTrailer describes the end of a step.
type SpoolTrailer struct {
	Code   int    `json:"code"`             // exit status
	Fault  string `json:"fault,omitempty"`  // why the program could not run
	OfStep bool   `json:"ofStep,omitempty"` // the fault is the step's own: a StepError
	Ended  bool   `json:"ended,omitempty"`  // the container was ended, and the program with it: its exit status may be meaningless
	Stdout int64  `json:"stdout,omitempty"` // bytes in all
	Stderr int64  `json:"stderr,omitempty"`
}

// spoolHeader is a kind, a time in nanoseconds since 1970 and a length, the last two in big-endian.
const spoolHeader = 1 + 8 + 4

// AppendSpool appends records with these bytes to dst: one, or several if there are more than MaxSpoolData.
func AppendSpool(dst []byte, r SpoolRecord) []byte {
	for first := true; first || len(r.Data) > 0; first = false {
		n := min(len(r.Data), MaxSpoolData)
		dst = append(dst, byte(r.Kind))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.At.UnixNano())) //nolint:gosec // read back as it was
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))               //nolint:gosec // at most MaxSpoolData
		dst = append(dst, r.Data[:n]...)
		r.Data = r.Data[n:]
	}
	return dst
}

// ErrSpool means that bytes are not those of a spool.
var ErrSpool = errors.New("the spool of a step is damaged")

// ParseSpool reads the record at the beginning of data, and returns its size; 0 if it is not whole yet. The record's data is a part
// of the argument.
func ParseSpool(data []byte) (SpoolRecord, int, error) {
	if len(data) == 0 {
		return SpoolRecord{}, 0, nil
	}
	switch SpoolKind(data[0]) {
	case SpoolStdout, SpoolStderr, SpoolNote, SpoolEnd:
	default:
		return SpoolRecord{}, 0, fmt.Errorf("%w: it has a record of kind %q", ErrSpool, data[0])
	}
	if len(data) < spoolHeader {
		return SpoolRecord{}, 0, nil
	}
	size := binary.BigEndian.Uint32(data[9:])
	if size > MaxSpoolData {
		return SpoolRecord{}, 0, fmt.Errorf("%w: it has a record of %d bytes", ErrSpool, size)
	}
	end := spoolHeader + int(size)
	if len(data) < end {
		return SpoolRecord{}, 0, nil
	}
	nanoseconds := int64(binary.BigEndian.Uint64(data[1:])) //nolint:gosec // as AppendSpool wrote it
	return SpoolRecord{Kind: SpoolKind(data[0]), At: time.Unix(0, nanoseconds), Data: data[spoolHeader:end]}, end, nil
}
