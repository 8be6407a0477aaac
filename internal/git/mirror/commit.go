package mirror

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/waybill-dev/waybill/internal/marker"
)

// Committer is the author and committer of all commits. The zero value is Waybill <waybill@noreply.invalid>.
type Committer struct{ Name, Email string }

// orDefault returns the committer with missing parts filled in.
func (c Committer) orDefault() Committer {
	return Committer{Name: cmp.Or(c.Name, "Waybill"), Email: cmp.Or(c.Email, "waybill@noreply.invalid")}
}

// String returns the committer as commits have it.
func (c Committer) String() string { return c.Name + " <" + c.Email + ">" }

// The trailers of commits.
const (
	trailerPipeline    = "Waybill-Pipeline"
	trailerEnvironment = "Waybill-Environment"
	trailerRevision    = "Waybill-Revision"
	trailerRun         = "Waybill-Run"
	trailerOnto        = "Waybill-Onto" // the commit of others that it is made on
)

// Trailers identify the promotion that a commit is made for.
type Trailers struct {
	Pipeline    string // namespace/name
	Environment string
	Revision    string
	Run         string
}

// ParseTrailers reads the trailers from the message of a commit; without them they are empty.
func ParseTrailers(message string) Trailers {
	return Trailers{
		Pipeline: trailer(message, trailerPipeline), Environment: trailer(message, trailerEnvironment),
		Revision: trailer(message, trailerRevision), Run: trailer(message, trailerRun),
	}
}

// trailer returns the value of a trailer in the last paragraph of a message.
func trailer(message, name string) string {
	message = strings.TrimRight(message, "\n")
	last := message[strings.LastIndex(message, "\n\n")+1:]
	for line := range strings.Lines(last) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+": "); ok {
			return value
		}
	}
	return ""
}

// trailersOf returns the trailers of the request's commit.
func (r Request) trailersOf() Trailers {
	return Trailers{Pipeline: r.Of.Namespace + "/" + r.Of.Pipeline, Environment: r.Of.Name, Revision: r.Revision, Run: r.Run}
}

// message returns the fixed message of the request's commit. onto is the commit of others that it is made on; "": none.
func (r Request) message(onto string) string {
	t := r.trailersOf()
	text := fmt.Sprintf("Promote %s in %s to %s\n\n%s: %s\n%s: %s\n%s: %s\n%s: %s\n", t.Pipeline, t.Environment, t.Revision,
		trailerPipeline, t.Pipeline, trailerEnvironment, t.Environment, trailerRevision, t.Revision, trailerRun, t.Run)
	if onto != "" {
		text += trailerOnto + ": " + onto + "\n"
	}
	return text
}

// commitInfo is a commit as it is stored.
type commitInfo struct {
	parents           []string
	author, committer string // name and address
	message           string
}

// read returns a commit of the mirror.
func (o *session) read(ctx context.Context, hash string) (commitInfo, error) {
	const longest = 1 << 20
	out, err := o.git(ctx, "cat-file", "commit", hash)
	if err != nil {
		return commitInfo{}, err
	}
	header, message, _ := strings.Cut(out[:min(len(out), longest)], "\n\n")
	c := commitInfo{message: message}
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch who, _, _ := strings.Cut(value, ">"); key {
		case "parent":
			c.parents = append(c.parents, value)
		case "author":
			c.author = who + ">"
		case "committer":
			c.committer = who + ">"
		}
	}
	return c, nil
}

// isOurs reports whether the commit, with all that it adds to the base branch, was made for the environment by Waybill. Commits
// by Waybill's usual name count also after that was changed.
func (c commitInfo) isOurs(of marker.Environment, we Committer) bool {
	t := ParseTrailers(c.message)
	isBy := func(we Committer) bool { return c.author == we.String() && c.committer == we.String() }
	return (isBy(we) || isBy(Committer{}.orDefault())) && len(c.parents) == 1 && trailer(c.message, trailerOnto) == "" &&
		t.Pipeline == of.Namespace+"/"+of.Pipeline && t.Environment == of.Name
}

// change is the edit of a commit.
type change struct {
	parent  string
	foreign bool // others made the parent, on the head branch
	files   []edited
}

// commit makes the request's commit and returns its hash.
func (o *session) commit(ctx context.Context, r Request, c change) (string, error) {
	tree, err := o.writeTree(ctx, c.parent, c.files)
	if err != nil {
		return "", err
	}
	date := "@" + strconv.FormatInt(r.At.Unix(), 10) + " +0000"
	onto, we := "", o.store.Committer
	if c.foreign {
		onto = c.parent
	}
	run := call{
		arguments: []string{"commit-tree", "-p", c.parent, tree},
		input:     strings.NewReader(r.message(onto)),
		environ: []string{
			"GIT_AUTHOR_NAME=" + we.Name, "GIT_AUTHOR_EMAIL=" + we.Email, "GIT_AUTHOR_DATE=" + date,
			"GIT_COMMITTER_NAME=" + we.Name, "GIT_COMMITTER_EMAIL=" + we.Email, "GIT_COMMITTER_DATE=" + date,
		},
	}
	if len(r.SigningKey) > 0 {
		if err := checkSigningKey(r.SigningKey); err != nil {
			return "", err
		}
		if err := o.writeKeys(map[string][]byte{"signing": r.SigningKey}); err != nil {
			return "", err
		}
		run.arguments = []string{"commit-tree", "-S", "-p", c.parent, tree}
		run.settings = []setting{{"gpg.format", "ssh"}, {"user.signingKey", o.keyFile("signing")}, {"gpg.ssh.program", "ssh-keygen"}}
	}
	out, err := o.run(ctx, run)
	return strings.TrimSpace(out), err
}

// checkSigningKey refuses keys whose signatures are not the same each time, and those with a passphrase.
func checkSigningKey(key []byte) error {
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return fatal(BadSecret, "the Secret's signingKey: %v", err)
	}
	if kind := signer.PublicKey().Type(); kind != ssh.KeyAlgoED25519 {
		return fatal(BadSecret, "the Secret's signingKey is of type %s; want an Ed25519 key", kind)
	}
	return nil
}

// writeTree returns the tree of the parent with some files replaced. It has no index: only the folders of these files are read.
func (o *session) writeTree(ctx context.Context, parent string, files []edited) (string, error) {
	const ref = "refs/waybill/edit"
	var b bytes.Buffer
	fmt.Fprintf(&b, "feature done\ncommit %s\ncommitter %s <%s> 0 +0000\ndata 0\nfrom %s\n", ref, o.store.Committer.Name,
		o.store.Committer.Email, parent)
	for _, f := range files {
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n", f.mode, quotePath(f.path), len(f.data))
		b.Write(f.data)
		b.WriteByte('\n')
	}
	b.WriteString("done\n")
	_, err := o.run(ctx, call{arguments: []string{"fast-import", "--quiet", "--force", "--date-format=raw"}, input: &b})
	if err != nil {
		return "", err
	}
	out, err := o.git(ctx, "rev-parse", "--verify", ref+"^{tree}")
	return strings.TrimSpace(out), err
}

// quotePath writes a path as fast-import reads it.
func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// checkRun returns an error for values that a trailer cannot hold.
func (r Request) checkRun() error {
	const longest = 256
	for _, text := range []string{r.Of.Namespace, r.Of.Pipeline, r.Of.Name, r.Run} {
		if text == "" || len(text) > longest || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return fatal("BadRequest", "the name %.40q: want 1 to %d bytes without control characters", text, longest)
		}
	}
	if strings.ContainsAny(r.Of.String(), "\"\\") {
		return fatal("BadRequest", "the names of %s: a marker cannot hold quotes and backslashes", r.Of)
	}
	if r.At.Before(time.Unix(0, 0)) {
		return fatal("BadRequest", "the run has no start")
	}
	return nil
}
