package local

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/builder/worker/api"
)

// filesTimeout bounds the time for which files are awaited.
const filesTimeout = time.Hour

// inboxFile is the name of the snapshot or bundle that is sent to this process, in the worker's own folder.
const inboxFile = "inbox.tar.zst"

// openInbox begins to serve the worker API before there is a plan, if a provisioner sends the files. Without one it returns nil.
func (b *Builder) openInbox(ctx context.Context, source *buildSource, flags Options) (*inbox, error) {
	push := flags.Launch.Push
	if push == nil {
		return nil, nil
	}
	path := filepath.Join(source.scratch, inboxFile)
	answers, err := api.NewInbox(api.InboxConfig{Path: path, Push: *push, Token: flags.Serve.given, Log: b.errorLog()})
	if err != nil {
		return nil, err
	}
	listener, err := flags.Serve.open(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.Err, "files are awaited on http://%s\n", listener.Addr())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	in := &inbox{Inbox: answers, listener: listener, stop: stop, served: make(chan error, 1)}
	go func() { in.served <- answers.Serve(serving, listener) }()
	return in, nil
}

// inbox is the worker API of this process while it waits for its files.
type inbox struct {
	*api.Inbox
	listener net.Listener
	stop     context.CancelFunc
	served   chan error // has the result of Serve
}

// close ends the API. A nil one does nothing.
func (in *inbox) close() error {
	if in == nil {
		return nil
	}
	in.stop()
	err := <-in.served
	in.served <- nil
	return err
}

// await returns when everything has come that a provisioner sends.
func (in *inbox) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, filesTimeout, fmt.Errorf("the files have not come within %s", filesTimeout))
	defer cancel()
	return in.Wait(ctx)
}
