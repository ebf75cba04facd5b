package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which packages of ours a package may import. A key stands for the package
// and, with /..., for those below it. Tests may import what they like.
var layers = map[string][]string{
	"session":                   {},
	"session/sessiontest":       {"session"},
	"loop/model/...":            {"loop/model/..."},
	"scripts":                   {},
	"runtime":                   {},
	"runtime/runtimetest":       {"runtime"},
	"runtime/reload":            {"runtime"},
	"runtime/bash":              {},
	"runtime/modules":           {"runtime", "runtime/bash"},
	"runtime/typings":           {"runtime"},
	"loop/tool/...":             {"loop/model", "loop/tool/..."},
	"loop/policy":               {"runtime", "runtime/bash", "loop/tool/..."},
	"loop":                      {"runtime", "session", "loop/model", "loop/tool", "loop/policy"},
	"bindings/js":               {"runtime"},
	"bindings/lua":              {"runtime"},
	"bindings/bindingstest":     {"runtime"},
	"cmd/dshsh":                 {"cmd/dshsh/internal/app"},
	"cmd/dshsh/bench":           {"..."},
	"cmd/dshsh/internal/...":    {"..."},
	"cmd/dshsh/internal/config": {"loop/policy", "loop/tool"},
	"cmd/dshsh/internal/trust":  {},
}

const module = "dshsh"

// rule is the most exact key of layers for a package.
func rule(pkg string) ([]string, bool) {
	if r, ok := layers[pkg]; ok {
		return r, true
	}
	for at := pkg; at != "."; at = path.Dir(at) {
		if r, ok := layers[at+"/..."]; ok {
			return r, true
		}
	}
	return nil, false
}

func allowed(rules []string, pkg string) bool {
	return slices.ContainsFunc(rules, func(r string) bool {
		if r == "..." || r == pkg {
			return true
		}
		base, below := strings.CutSuffix(r, "/...")
		return below && (pkg == base || strings.HasPrefix(pkg, base+"/"))
	})
}

// TestLayers parses the files itself: what a subprocess reads would not be seen by the
// test cache.
func TestLayers(t *testing.T) {
	root := filepath.Join("..", "..")
	tops := map[string]bool{"cmd": true, "runtime": true, "loop": true, "bindings": true, "scripts": true, "session": true, "examples": true, "docs": true}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !tops[e.Name()] {
			t.Errorf("%s: no further top-level folder", e.Name())
		}
	}
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		if strings.HasPrefix(pkg, "examples") {
			return nil
		}
		rules, ok := rule(pkg)
		if !ok {
			t.Errorf("package %s is not in the table of layers", pkg)
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			ours, ok := strings.CutPrefix(name, module+"/")
			if ok && ours != pkg && !allowed(rules, ours) {
				t.Errorf("%s: %s may not import %s", fset.Position(imp.Pos()), pkg, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
