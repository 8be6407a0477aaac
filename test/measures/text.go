package main

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// counted returns a figure that is the length of its list.
func counted(list []string) figure {
	slices.Sort(list)
	return figure{strconv.Itoa(len(list)), list}
}

func largestPackage(s *source) (figure, error) {
	files := map[string]int{}
	for _, f := range s.product {
		files[path.Dir(f.Path)]++
	}
	folders := slices.SortedFunc(maps.Keys(files), func(a, b string) int { return files[b] - files[a] })
	var list []string
	for _, folder := range folders[:min(10, len(folders))] {
		list = append(list, fmt.Sprintf("%4d %s", files[folder], folder))
	}
	return figure{strconv.Itoa(files[folders[0]]), list}, nil
}

// occurrences counts a text in the product's files.
func occurrences(words string) func(*source) (figure, error) {
	return func(s *source) (figure, error) {
		var list []string
		for _, f := range s.product {
			text, err := s.text(f)
			if err != nil {
				return figure{}, err
			}
			for range strings.Count(text, words) {
				list = append(list, f.Path)
			}
		}
		return counted(list), nil
	}
}

func kubeNamesArgo(s *source) (figure, error) {
	var list []string
	for _, f := range s.product {
		if !below(f, "internal/kube") || below(f, "internal/kube/runner") {
			continue
		}
		text, err := s.text(f)
		if err != nil {
			return figure{}, err
		}
		if strings.Contains(strings.ToLower(text), "argo") {
			list = append(list, f.Path)
		}
	}
	return counted(list), nil
}

// clientMethods counts the methods of the type Client in internal/client, or in internal/server while it is there.
func clientMethods(s *source) (figure, error) {
	var list []string
	for _, f := range append(s.in("internal/client"), s.in("internal/server")...) {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			receiver := fn.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if name, ok := receiver.(*ast.Ident); ok && name.Name == "Client" {
				list = append(list, fn.Name.Name)
			}
		}
	}
	return counted(list), nil
}

// arrowsUp counts the pairs of folders below internal of which each imports the other: one of the two arrows leads up.
func arrowsUp(s *source) (figure, error) {
	const internal = archtest.Module + "/internal/"
	arrows := map[[2]string]bool{}
	for _, f := range s.product {
		for _, imported := range f.Imports() {
			if strings.HasPrefix(imported, internal) && strings.HasPrefix(f.Package, internal) {
				arrows[[2]string{archtest.Top(f.Package), archtest.Top(imported)}] = true
			}
		}
	}
	var list []string
	for a := range arrows {
		if a[0] < a[1] && arrows[[2]string{a[1], a[0]}] {
			list = append(list, a[0]+" and "+a[1])
		}
	}
	return counted(list), nil
}

func productLines(s *source) (figure, error) {
	sum, folders := 0, map[string]int{}
	for _, f := range s.product {
		sum += f.Lines()
		folders[path.Dir(f.Path)] += f.Lines()
	}
	var list []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		list = append(list, fmt.Sprintf("%6d %s", folders[folder], folder))
	}
	return figure{strconv.Itoa(sum), list}, nil
}

func linesOfPart(i int) func(*source) (figure, error) {
	return func(s *source) (figure, error) {
		return figure{value: strconv.Itoa(archtest.LinesOf(s.product)[i])}, nil
	}
}

func longLines(s *source) (figure, error) {
	sum, seen := 0, map[string]bool{}
	var list []string
	for _, f := range append(s.product, s.all...) {
		if seen[f.Path] || ast.IsGenerated(f.AST) {
			continue
		}
		seen[f.Path] = true
		text, err := s.text(f)
		if err != nil {
			return figure{}, err
		}
		if n := archtest.LongLines(text, 140); n > 0 {
			sum += n
			list = append(list, fmt.Sprintf("%4d %s", n, f.Path))
		}
	}
	return figure{strconv.Itoa(sum), list}, nil
}

func parameters(s *source) (figure, error) {
	var list []string
	for _, f := range s.product {
		list = append(list, archtest.ManyParameters(f)...)
	}
	return counted(list), nil
}

func testsOf(folder string) func(*source) (figure, error) {
	return func(s *source) (figure, error) {
		tests, code := 0, 0
		for _, f := range s.all {
			switch {
			case path.Dir(f.Path) != folder:
			case f.Test:
				tests += f.Lines()
			default:
				code += f.Lines()
			}
		}
		return figure{value: fmt.Sprintf("%.2f", float64(tests)/float64(max(code, 1)))}, nil
	}
}
