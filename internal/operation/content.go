package operation

import (
	"io"

	"github.com/danielgtaylor/huma/v2"
)

// Content is the body of a request that is read as it arrives, such as an upload. It has no bound of its own. The zero
// Content is empty.
type Content struct {
	Reader io.Reader
	Size   int64 // in bytes; 0: not known
}

// Read reads from the Reader.
func (c Content) Read(p []byte) (int, error) {
	if c.Reader == nil {
		return 0, io.EOF
	}
	return c.Reader.Read(p)
}

// Resolve takes the body of a request. huma calls it before the handler.
func (c *Content) Resolve(ctx huma.Context) []error {
	c.Reader = ctx.BodyReader()
	return nil
}
