package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/archtest"
)

func TestFilesThatCallEachOtherAreALoop(t *testing.T) {
	set := token.NewFileSet()
	checked := &checkedFiles{info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	var parsed []*ast.File
	for name, text := range map[string]string{
		"a.go": `package p; func A() { b{}.call() }`,
		"b.go": `package p; type b struct{}; func (b) call() { c(1); D() }`,
		"c.go": `package p; func c[T any](T) { A() }`,
		"d.go": `package p; type i interface{ call() }; func D() { var x i = b{}; x.call(); e := A; e() }`,
	} {
		file, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
		checked.files = append(checked.files, archtest.File{Path: name, Package: "p", AST: file, Set: set})
	}
	if _, err := new(types.Config).Check("p", set, parsed, checked.info); err != nil {
		t.Fatal(err)
	}
	calls := callsOf(checked)
	var loops []string
	for file := range calls {
		if reaches(calls, file, file, map[string]bool{}) {
			loops = append(loops, file)
		}
	}
	slices.Sort(loops)
	if diff := cmp.Diff([]string{"a.go", "b.go", "c.go"}, loops); diff != "" {
		t.Error("(-want +got)\n" + diff)
	}
}

func TestMeasuresOfTextsCount(t *testing.T) {
	s, err := readSource("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measures() {
		if m.name == "interfaces" || m.name[:5] == "loops" {
			continue // they compile the product
		}
		if counted, err := m.count(s); err != nil || counted.value == "" {
			t.Errorf("%s: %q, %v", m.name, counted.value, err)
		}
	}
}
