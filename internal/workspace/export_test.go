package workspace

import (
	"archive/tar"
	"context"
	"io"
)

// PackAll writes a snapshot of what is selected below root.
func PackAll(ctx context.Context, w io.Writer, root string, selected Selection) (Packed, error) {
	entries, warnings, err := list(root, selected)
	if err != nil {
		return Packed{}, err
	}
	packed, err := pack(ctx, w, entries, asRead)
	packed.Warnings = warnings
	return packed, err
}

// PackWhile does what PackFile does, with a function that is called when an entry has been opened, before a large one is read.
func PackWhile(ctx context.Context, path, root string, opened func(name string)) (Packed, error) {
	return packer{root, Selection{}, func(h *tar.Header) { opened(h.Name) }}.packFile(ctx, path)
}

// ReadAt packs one file from any place.
func ReadAt(ctx context.Context, path string) error {
	_, err := pack(ctx, io.Discard, []entry{{path: "file", from: path}}, asRead)
	return err
}

// ExtractWithin does what Extract does, with other bounds.
func ExtractWithin(ctx context.Context, r io.Reader, dir string, entries, names, content, tar int64) error {
	_, err := extract(ctx, r, dir, room{entries: entries, names: names, content: content, tar: tar})
	return err
}

// CopyAt copies one file from any place.
func CopyAt(from, dir string) error { return copyEntry(dir, entry{path: "file", from: from}) }
