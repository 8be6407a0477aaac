// Package client performs operations on a server over HTTP, and follows its streams. A Client resumes broken streams, bounds
// its reads, and sends a home's token only to a server that has proved to have it.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Client performs operations on a server, as an operation.Caller: with Call those that answer with a value, and with a method
// for each stream, file and process. Errors have the fault codes of a Service; fault.Unavailable if the server cannot be
// reached.
type Client struct {
	base   string // http://127.0.0.1:7070
	by     string // name of the user, which the server takes if the token is the home's
	open   *line
	proven *line // with the home's token, to a server that proves that it has it; nil: the server is not the home's

	mu     sync.Mutex
	chosen *line // open or proven; nil: not known yet
}

// New returns a client of the server at address (http://host:port). token may be "" for reading on loopback.
func New(address, token, by string) *Client {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Client{base: strings.TrimSuffix(address, "/"), by: by, open: newLine(token, nil)}
}

// NewHome returns a client of a home's own server. It sends the home's token only on connections whose server has proved
// that it has the token, or that are encrypted: then the name is proved. Elsewhere it sends none.
func NewHome(address, token, by string) *Client {
	c := New(address, "", by)
	base, err := url.Parse(c.base)
	switch {
	case err != nil || token == "":
	case base.Scheme == "https":
		c.open = newLine(token, nil)
	default:
		c.proven = newLine(token, proving(base, token))
	}
	return c
}

// Follow calls Service.Follow on the server. A broken connection is resumed without loss or repetition.
func (c *Client) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	in := operation.LogInputOf(q)
	ask, err := newRequest(operation.Description(operation.ReadLog), &in)
	if err != nil {
		return err
	}
	ask.accept = "text/event-stream"
	return c.followStream(ctx, ask, func(_, data string) (bool, error) {
		var entry pipeline.Entry
		if err := json.Unmarshal([]byte(data), &entry); err != nil {
			return false, fmt.Errorf("read an entry of %s: %w", q.Pipeline, err)
		}
		return true, each(entry)
	})
}
