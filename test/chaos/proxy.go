//go:build linux

package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
)

// Proxy connects processes to PostgreSQL. It reads what passes, so that a test can act at a
// statement, and it can cut connections, or fall silent on them without cutting.
type Proxy struct {
	listener net.Listener
	upstream string // host:port
	ended    sync.WaitGroup

	mu     sync.Mutex
	links  map[*Link]bool
	watch  func(Passing)
	silent bool // new connections are silent from the start
}

// Passing is a statement on its way.
type Passing struct {
	SQL         string
	Answered    bool     // false: the server has not seen it yet; true: it was done, and the process does not know it yet
	Transaction []string // the earlier statements of its transaction, from BEGIN
}

// NewProxy starts a proxy for the server in a database's address.
func NewProxy(ctx context.Context, database string) (*Proxy, error) {
	address, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, upstream: address.Host, links: map[*Link]bool{}, watch: func(Passing) {}}
	p.ended.Go(p.accept)
	return p, nil
}

// Through returns a database's address by way of the proxy.
func (p *Proxy) Through(database string) string {
	address, err := url.Parse(database)
	if err != nil {
		return database // the client that uses it reports the error
	}
	address.Host = p.listener.Addr().String()
	address.RawQuery = "sslmode=disable" // it reads what passes
	return address.String()
}

// Watch calls f for every statement, twice: before the server sees it, and when it was answered.
// The connection waits for f.
func (p *Proxy) Watch(f func(Passing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = f
}

func (p *Proxy) notify(passing Passing) {
	p.mu.Lock()
	watch := p.watch
	p.mu.Unlock()
	watch(passing)
}

// Any matches every connection.
func Any(*Link) bool { return true }

// Listening matches connections that wait for notifications.
func Listening(l *Link) bool { return l.listens }

// Cut closes the connections that match, and says how many.
func (p *Proxy) Cut(match func(*Link) bool) int {
	return p.each(match, func(l *Link) { l.close() })
}

// Silence lets nothing pass on the connections that match any more, and does not close them. All:
// nor on new ones.
func (p *Proxy) Silence(all bool, match func(*Link) bool) int {
	n := p.each(match, func(l *Link) { l.hush() })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = all
	return n
}

// Speak lets new connections pass again; silent ones stay so.
func (p *Proxy) Speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = false
}

func (p *Proxy) each(match func(*Link) bool, do func(*Link)) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if match(l) {
			do(l)
			n++
		}
	}
	return n
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut(Any)
	p.ended.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &Link{proxy: p, client: client, dialed: make(chan struct{}), silenced: make(chan struct{}), closed: make(chan struct{})}
		p.mu.Lock()
		p.links[l] = true
		if p.silent {
			l.hush()
		}
		p.mu.Unlock()
		p.ended.Go(l.run)
	}
}

// Link is one connection through the proxy.
type Link struct {
	proxy          *Proxy
	client, server net.Conn
	dialed         chan struct{}
	silence        sync.Once
	silenced       chan struct{}
	end            sync.Once
	closed         chan struct{}

	prepared    map[string]string
	listens     bool // under proxy.mu
	transaction []string
	mu          sync.Mutex
	asked       []question // without an answer yet
}

// question is a query, which ends with the server's next ReadyForQuery.
type question struct {
	statements  []string
	transaction []string
}

func (l *Link) hush() { l.silence.Do(func() { close(l.silenced) }) }

func (l *Link) close() {
	l.end.Do(func() {
		close(l.closed)
		_ = l.client.Close()
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}

// run passes everything on until one side ends.
func (l *Link) run() {
	defer func() {
		l.close()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	server, err := new(net.Dialer).Dial("tcp", l.proxy.upstream)
	if err != nil {
		return
	}
	l.proxy.mu.Lock()
	l.server = server
	l.proxy.mu.Unlock()
	select {
	case <-l.closed: // before it was known here
		_ = server.Close()
	default:
	}
	l.prepared = map[string]string{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.answers()
		l.close()
	}()
	_ = l.questions()
	l.close()
	<-done
}

// pass forwards bytes unless the link is silent; then it waits for the link's end.
func (l *Link) pass(to io.Writer, data []byte) error {
	select {
	case <-l.silenced:
		<-l.closed
		return net.ErrClosed
	default:
	}
	_, err := to.Write(data)
	return err
}

// questions reads what the client sends, message by message.
func (l *Link) questions() error {
	startup, err := frame(l.client, false)
	if err != nil {
		return err
	}
	if err := l.pass(l.server, startup); err != nil {
		return err
	}
	var pending []string // executed since the last Sync
	portal := ""
	for {
		message, err := frame(l.client, true)
		if err != nil {
			return err
		}
		body := message[5:]
		switch message[0] {
		case 'P': // Parse: name, statement
			name, rest := text(body)
			l.prepared[name], _ = text(rest)
		case 'B': // Bind: portal, name
			_, rest := text(body)
			name, _ := text(rest)
			portal = l.prepared[name]
		case 'E':
			l.see(portal)
			pending = append(pending, portal)
		case 'Q':
			statement, _ := text(body)
			l.see(statement)
			l.ask([]string{statement})
		case 'S':
			l.ask(pending)
			pending = nil
		}
		if err := l.pass(l.server, message); err != nil {
			return err
		}
	}
}

// see handles a statement that the server has not seen.
func (l *Link) see(statement string) {
	word := strings.ToUpper(strings.TrimSpace(statement))
	switch {
	case strings.HasPrefix(word, "BEGIN"):
		l.transaction = nil
	case strings.HasPrefix(word, "LISTEN"):
		l.proxy.mu.Lock()
		l.listens = true
		l.proxy.mu.Unlock()
	}
	l.proxy.notify(Passing{SQL: statement, Transaction: l.transaction})
	l.transaction = append(l.transaction[:len(l.transaction):len(l.transaction)], statement)
}

func (l *Link) ask(statements []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, question{statements: statements, transaction: l.transaction})
}

// answers reads what the server sends. A test sees a complete answer before the client gets its
// end.
func (l *Link) answers() error {
	first := true // ReadyForQuery after the login answers nothing
	for {
		message, err := frame(l.server, true)
		if err != nil {
			return err
		}
		if message[0] == 'Z' && !first {
			l.answered()
		}
		first = first && message[0] != 'Z'
		if err := l.pass(l.client, message); err != nil {
			return err
		}
	}
}

func (l *Link) answered() {
	l.mu.Lock()
	var q question
	if len(l.asked) > 0 {
		q, l.asked = l.asked[0], l.asked[1:]
	}
	l.mu.Unlock()
	for _, statement := range q.statements {
		l.proxy.notify(Passing{SQL: statement, Answered: true, Transaction: q.transaction})
	}
}

// maxFrame is the size in bytes above which a message cannot be a valid one.
const maxFrame = 64 << 20

// frame reads one message of PostgreSQL's protocol: a type, but for the first of a client, and the
// length that counts itself.
func frame(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 512)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	at := len(head) - 4
	size := int(head[at])<<24 | int(head[at+1])<<16 | int(head[at+2])<<8 | int(head[at+3])
	if size < 4 || size > maxFrame {
		return nil, errors.New("not PostgreSQL's protocol")
	}
	message := append(head, make([]byte, size-4)...)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}

// text cuts off what ends with NUL.
func text(data []byte) (string, []byte) {
	before, after, _ := strings.Cut(string(data), "\x00")
	return before, []byte(after)
}
