package mirror

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/marker"
)

// file is a file of a tree that mentions the environment.
type file struct {
	path, mode, blob string
	size             int64
}

// edited is a file with its new content.
type edited struct {
	file
	data []byte
}

// find returns the files of a commit in which a line has a marker of the environment.
func (o *session) find(ctx context.Context, commit string, r Request) ([]file, error) {
	out, err := o.git(ctx, "grep", "--files-with-matches", "--null", "--text", "--fixed-strings", "--no-color", "--full-name",
		"--no-textconv",
		"-e", marker.Keyword, "--and", "(", "-e", `"`+r.Of.String()+`"`, "--or", "-e", `"`+r.Of.String()+`:`, ")",
		commit, "--", "*.yaml", "*.yml", ":(glob)**/Kustomization")
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if path, ok := strings.CutPrefix(name, commit+":"); ok && r.within.match(path) {
			paths = append(paths, path)
		}
	}
	if len(paths) > mostFiles {
		return nil, fatal("TooLarge", "more than %d files have markers of %s", mostFiles, r.Of)
	}
	return o.stat(ctx, commit, paths)
}

// stat returns the entries of a tree, in the order of their paths.
func (o *session) stat(ctx context.Context, commit string, paths []string) ([]file, error) {
	const mostArguments = 64 << 10
	var files []file
	for len(paths) > 0 {
		arguments, size, n := []string{"ls-tree", "-z", "--long", "--full-tree", commit, "--"}, 0, 0
		for ; n < len(paths) && (n == 0 || size < mostArguments); n++ {
			arguments, size = append(arguments, paths[n]), size+len(paths[n])+1
		}
		paths = paths[n:]
		out, err := o.run(ctx, call{arguments: arguments, environ: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return nil, err
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			about, path, ok := strings.Cut(entry, "\t")
			fields := strings.Fields(about)
			if !ok || len(fields) != 4 || fields[1] != "blob" {
				continue
			}
			size, err := strconv.ParseInt(fields[3], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("git ls-tree prints %q", about)
			}
			files = append(files, file{path: path, mode: fields[0], blob: fields[2], size: size})
		}
	}
	return files, nil
}

// visit calls do with the content of every file, in order. Of a file beyond the bound of package marker it gives the bound and one byte.
func (o *session) visit(ctx context.Context, files []file, do func(file, []byte) error) error {
	var request bytes.Buffer
	for _, f := range files {
		if f.size <= marker.MaxFile {
			request.WriteString(f.blob + "\n")
		}
	}
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := o.run(ctx, call{arguments: []string{"cat-file", "--batch"}, input: &request, output: writer})
		writer.CloseWithError(err)
		done <- err
	}()
	err := visitEach(bufio.NewReader(reader), files, do)
	reader.CloseWithError(io.ErrClosedPipe)
	if ended := <-done; err == nil {
		err = ended
	}
	return err
}

func visitEach(from *bufio.Reader, files []file, do func(file, []byte) error) error {
	for _, f := range files {
		if f.size > marker.MaxFile {
			return &Error{Class: Fatal, Reason: MarkerUnusable,
				Text: fmt.Sprintf("%s: the file has more than %d MiB", f.path, marker.MaxFile>>20)}
		}
		line, err := from.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read %q from the mirror: %w", f.path, err)
		}
		if line != fmt.Sprintf("%s blob %d\n", f.blob, f.size) {
			return &Error{Class: Retry, Text: fmt.Sprintf("read %q from the mirror: git prints %q", f.path, line), damage: true}
		}
		data := make([]byte, f.size+1)
		if _, err := io.ReadFull(from, data); err != nil {
			return fmt.Errorf("read %q from the mirror: %w", f.path, err)
		}
		if err := do(f, data[:f.size:f.size]); err != nil {
			return err
		}
	}
	return nil
}

// edit returns the files of a commit that change when the environment gets a revision, and all marked lines.
func (o *session) edit(ctx context.Context, commit string, r Request) (files []edited, lines []marker.Line, err error) {
	found, err := o.find(ctx, commit, r)
	if err != nil {
		return nil, nil, err
	}
	total := int64(0)
	err = o.visit(ctx, found, func(f file, data []byte) error {
		changed, marked, err := marker.Edit(f.path, data, r.Of, r.Revision)
		if _, ok := errors.AsType[*marker.Unusable](err); ok {
			return &Error{Class: Fatal, Reason: MarkerUnusable, Text: err.Error()}
		} else if err != nil {
			return fatal("BadRevision", "%v", err)
		}
		lines = append(lines, marked...)
		if bytes.Equal(changed, data) {
			return nil
		}
		if total += int64(len(changed)); total > mostEdited {
			return fatal("TooLarge", "the files with markers of %s have more than %d MiB", r.Of, mostEdited>>20)
		}
		files = append(files, edited{f, changed})
		return nil
	})
	return files, lines, err
}

// values returns the marked lines of a commit.
func (o *session) values(ctx context.Context, commit string, r Request) (lines []marker.Line, err error) {
	found, err := o.find(ctx, commit, r)
	if err != nil {
		return nil, err
	}
	err = o.visit(ctx, found, func(f file, data []byte) error {
		marked, err := marker.Values(f.path, data, r.Of)
		if err != nil {
			return &Error{Class: Fatal, Reason: MarkerUnusable, Text: err.Error()}
		}
		lines = append(lines, marked...)
		return nil
	})
	return lines, err
}
