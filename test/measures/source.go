package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// source is the Go code of the repository.
type source struct {
	root    string
	product []archtest.File
	all     []archtest.File          // also tests and the programs in test and bench
	checked map[string]*checkedFiles // by folder
	exports map[string]string        // files with export data, by import path; nil before the product is compiled
	built   map[string]bool          // files that are compiled on this system
}

func readSource(root string) (*source, error) {
	product, err := archtest.LoadProduct(root)
	if err != nil {
		return nil, err
	}
	all, err := archtest.Load(root)
	return &source{root: root, product: product, all: all, checked: map[string]*checkedFiles{}}, err
}

// in returns the product's files of one folder.
func (s *source) in(folder string) (files []archtest.File) {
	for _, f := range s.product {
		if path.Dir(f.Path) == folder {
			files = append(files, f)
		}
	}
	return files
}

// text returns the text of a file.
func (s *source) text(f archtest.File) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, f.Path))
	return string(text), err
}

// below reports whether a file is in a folder or in one below it.
func below(f archtest.File, folder string) bool { return strings.HasPrefix(f.Path, folder+"/") }
