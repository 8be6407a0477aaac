package builds

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/fault"
)

// coder compresses and decompresses blocks. Safe for concurrent use.
type coder struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// newCoder makes the coder when it is first used: its tables are large. Its options are constants that zstd accepts.
var newCoder = sync.OnceValue(func() coder {
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(BlockSize), zstd.WithEncoderCRC(true))
	decoder, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(BlockSize), zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
	return coder{encoder, decoder}
})

func compress(data []byte) []byte {
	return newCoder().encoder.EncodeAll(data, make([]byte, 0, len(data)/4))
}

// open returns the bytes of a block; fault.Corrupt if they are not those that were stored.
func (b Block) open() ([]byte, error) {
	data, err := newCoder().decoder.DecodeAll(b.Data, make([]byte, 0, min(b.Size, BlockSize)))
	if err != nil || len(data) != b.Size {
		return nil, fault.New(fault.Corrupt, "the stored block of step %d at entry %d is damaged: %d of %d bytes: %v",
			b.Step, b.Begin.ID+1, len(data), b.Size, err)
	}
	return data, nil
}
