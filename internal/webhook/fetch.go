package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/waybill-dev/waybill/internal/address"
)

// Fetched is a document that was read from elsewhere.
type Fetched struct {
	MediaType string // as the answer says, with its parameters
	Body      []byte
}

// Fetch reads a document of at most limit bytes through the guard. Redirects are not followed.
func (c *Client) Fetch(ctx context.Context, link string, limit int64) (Fetched, error) {
	u, err := parseURL(link)
	if err != nil {
		return Fetched{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Fetched{}, err
	}
	request.Header.Set(headerAgent, userAgent)
	response, err := c.http.Do(request)
	if err != nil {
		if refused, ok := errors.AsType[*address.Refused](err); ok {
			return Fetched{}, fmt.Errorf("address %s is refused: %s", refused.Address, refused.Why)
		}
		return Fetched{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Fetched{}, fmt.Errorf("%s answered %s", u.Host, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return Fetched{}, fmt.Errorf("read the answer of %s: %w", u.Host, err)
	case int64(len(body)) > limit:
		return Fetched{}, fmt.Errorf("%s answered more than %d bytes", u.Host, limit)
	}
	return Fetched{MediaType: response.Header.Get("Content-Type"), Body: body}, nil
}
