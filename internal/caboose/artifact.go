package caboose

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// maxArtifact bounds the bytes of a workflow's artifacts that are kept, unpacked, in total. maxRead bounds the bytes
// that are fetched and unpacked for them, whether they can be kept or not.
const (
	maxArtifact = 8 << 20
	maxRead     = 8 * maxArtifact
)

// codeArtifact is the code of a successful end some of whose artifacts could not be read, and never
// will be.
const codeArtifact = "artifact_missing"

// Bucket is the place where workflows of a handler store their artifacts. Artifacts elsewhere are not read: a
// workflow must not choose the objects read with this instance's credentials.
type Bucket struct {
	Name  string
	Store Getter
}

// Getter reads objects; see blob.Store.
type Getter interface {
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

// artifact is an output artifact as the status of a workflow names it.
type artifact struct {
	name, bucket, key string
	archive           string // none, tar or zip
}

// artifactsOf lists the output artifacts of the workflow's entry point, and the global ones.
func artifactsOf(w *unstructured.Unstructured) []artifact {
	repository := text(w.Object, "status", "artifactRepositoryRef", "artifactRepository", "s3", "bucket")
	var all []artifact
	for _, one := range outputLists(w, "artifacts") {
		fields, _ := one.(map[string]any)
		a := artifact{name: text(fields, "name"), bucket: text(fields, "s3", "bucket"), key: text(fields, "s3", "key"), archive: "tar"}
		if a.bucket == "" {
			a.bucket = repository
		}
		for _, way := range []string{"none", "zip"} {
			if field(fields, "archive", way) != nil {
				a.archive = way
			}
		}
		all = append(all, a)
	}
	return all
}

// isLog reports whether Argo added the artifact because the template has archiveLogs; its content
// is the log of a container.
func (a artifact) isLog() bool {
	container, found := strings.CutSuffix(a.name, "-logs")
	return found && path.Base(a.key) == container+".log"
}

// outputLists returns the outputs of one kind of the entry point, then the global ones.
func outputLists(w *unstructured.Unstructured, kind string) []any {
	entry, _ := argo.Nodes(w)[w.GetName()].(map[string]any)
	own, _ := field(entry, "outputs", kind).([]any)
	global, _ := field(w.Object, "status", "outputs", kind).([]any)
	return slices.Concat(own, global)
}

// made holds the outputs of a workflow.
type made struct {
	output  json.RawMessage
	missing []string // what its artifacts lack, in words
}

// collect reads a workflow's outputs. It fails while an artifact cannot be read; a later call may succeed.
func (w *watcher) collect(ctx context.Context, id action.ID, full *unstructured.Unstructured, process string) (made, error) {
	c := collector{watcher: w, bucket: w.cfg.Buckets[w.handler], id: id, left: maxArtifact, unread: maxRead, outputs: parametersOf(full)}
	if phaseOf(full) != phaseSucceeded {
		return c.result(""), nil
	}
	var whole *config.ArgoOutput
	if w.cfg.Output != nil && process != "" {
		whole = w.cfg.Output(process)
	}
	switch {
	case whole == nil:
		err := c.addAll(ctx, artifactsOf(full))
		return c.result(""), err
	case whole.Parameter != "":
		return c.result(whole.Parameter), nil
	case whole.Artifact != "":
		err := c.addOnly(ctx, whole.Artifact, artifactsOf(full))
		return c.result(whole.Artifact), err
	}
	key, err := whole.Key.Render(map[string]any{"id": id.String()})
	if err != nil {
		return made{}, err
	}
	err = c.addOnly(ctx, wholeOutput, []artifact{{name: wholeOutput, key: key, archive: "none"}})
	return c.result(wholeOutput), err
}

// wholeOutput is the name of an output that the workflow does not declare. No other output has it.
const wholeOutput = "output document"

// collector gathers the outputs of one workflow.
type collector struct {
	*watcher
	bucket  Bucket
	id      action.ID
	outputs map[string]any
	missing []string
	left    int64 // bytes that may still be kept
	unread  int64 // bytes that may still be fetched and unpacked
}

// result returns all outputs as one object, or the one with the name.
func (c *collector) result(whole string) made {
	var output any = c.outputs
	if whole != "" {
		value, there := c.outputs[whole]
		if output = value; !there {
			c.missing = append(c.missing, fmt.Sprintf("the workflow has no output %q", whole))
		}
	}
	raw, _ := json.Marshal(output) // texts and valid JSON always marshal
	return made{output: raw, missing: c.missing}
}

// addAll reads the artifacts that are outputs. An output parameter keeps its name.
func (c *collector) addAll(ctx context.Context, artifacts []artifact) error {
	if c.bucket.Store == nil {
		return nil
	}
	parameters := maps.Clone(c.outputs)
	for _, a := range artifacts {
		if _, taken := parameters[a.name]; taken {
			c.missing = append(c.missing, fmt.Sprintf("artifact %s: an output parameter has the same name", a.name))
			continue
		}
		if a.isLog() {
			continue
		}
		if err := c.add(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// addOnly reads the artifact with the name, which is the only output.
func (c *collector) addOnly(ctx context.Context, name string, artifacts []artifact) error {
	c.outputs = map[string]any{}
	i := slices.IndexFunc(artifacts, func(a artifact) bool { return a.name == name })
	if i < 0 || c.bucket.Store == nil {
		return nil
	}
	return c.add(ctx, artifacts[i])
}

// add reads one artifact. An artifact that will never be there is null, and named.
func (c *collector) add(ctx context.Context, a artifact) error {
	c.outputs[a.name] = nil
	why := ""
	switch {
	case a.key == "":
		why = "is not in S3"
	case a.bucket != "" && a.bucket != c.bucket.Name:
		why = fmt.Sprintf("is in the bucket %q, not in %q", a.bucket, c.bucket.Name)
	}
	if why == "" {
		content, err := c.read(ctx, a)
		switch {
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid):
			why = err.Error()
		case err != nil:
			return fmt.Errorf("read the artifact %s of workflow %s: %w", a.name, c.id, err)
		default:
			return c.keep(ctx, a.name, content)
		}
	}
	c.missing = append(c.missing, fmt.Sprintf("artifact %s: %s", a.name, why))
	return nil
}

// keep takes the content of an artifact: JSON as it is, anything else as a reference to a copy of
// it.
func (c *collector) keep(ctx context.Context, name string, content []byte) error {
	if json.Valid(content) {
		c.outputs[name] = json.RawMessage(content)
		return nil
	}
	key := blob.ActionKey(c.id, "artifact-"+url.PathEscape(name))
	if _, _, _, err := c.archive.Put(ctx, key, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("store the artifact %s of workflow %s: %w", name, c.id, err)
	}
	c.outputs[name] = map[string]string{"blob": key}
	return nil
}

// read fetches and unpacks an artifact. An artifact that is too big, or not of its declared kind, is fault.Invalid.
func (c *collector) read(ctx context.Context, a artifact) ([]byte, error) {
	if c.unread <= 0 {
		return nil, errTooMuch
	}
	r, _, err := c.bucket.Store.Get(ctx, a.key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // what was read counts
	packed, err := c.limited(charged{c, r})
	if err != nil {
		return nil, err
	}
	var content []byte
	switch a.archive {
	case "tar":
		content, err = c.untar(packed)
	case "zip":
		content, err = c.unzip(packed)
	default:
		content = packed
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, fmt.Errorf("unpack %s: %w", a.key, err))
	}
	c.left -= int64(len(content))
	return content, nil
}

// errTooMuch is the fault of an artifact that is not read because others used up the budget of fetching and
// unpacking.
var errTooMuch = fault.New(fault.Invalid, "want at most %d bytes of artifacts fetched and unpacked", maxRead)

// charged is a reader that takes its bytes from its collector's budget, and fails when they are used up.
type charged struct {
	*collector
	from io.Reader
}

func (r charged) Read(p []byte) (int, error) {
	if r.unread <= 0 {
		return 0, errTooMuch
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.unread)])
	r.unread -= int64(n)
	return n, err
}

// limited reads at most the rest of the budget.
func (c *collector) limited(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, c.left+1))
	if err == nil && int64(len(content)) > c.left {
		return nil, fault.New(fault.Invalid, "want at most %d bytes of artifacts", maxArtifact)
	}
	return content, err
}

var errSeveralFiles = errors.New("want one file in the archive")

// untar returns the one file in a compressed tar archive.
func (c *collector) untar(packed []byte) (content []byte, err error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(charged{c, unpacked}) // also bounds an archive of headers alone
	found := false
	for {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF) && !found:
			return nil, errSeveralFiles
		case errors.Is(err, io.EOF):
			return content, nil
		case err != nil:
			return nil, err
		case header.Typeflag == tar.TypeDir:
			continue
		case header.Typeflag != tar.TypeReg || found:
			return nil, errSeveralFiles
		}
		found = true
		if content, err = c.limited(files); err != nil {
			return nil, err
		}
	}
}

// unzip returns the one file in a zip archive.
func (c *collector) unzip(packed []byte) ([]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(slices.Clone(archive.File), func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/") })
	if len(files) != 1 {
		return nil, errSeveralFiles
	}
	r, err := files[0].Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // what was read counts
	return c.limited(charged{c, r})
}
