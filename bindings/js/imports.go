package js

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"

	"dshsh/runtime"
)

// imports is what a file takes by name of those that it imports, by how it calls them. It
// is read from what esbuild makes of the file: each import is a variable of its own, whose
// members are the names. Names that are only handed on are left out: they may be types.
// Immutable.
type imports map[string][]string

// importsOf reads the syntax tree of a transformed file.
func importsOf(tree *ast.Program) imports {
	if len(tree.Body) != 1 {
		return nil
	}
	wrapper, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	fn, ok := wrapper.Expression.(*ast.FunctionLiteral)
	if !ok {
		return nil
	}
	from := map[string]string{} // by variable
	for _, st := range fn.Body.List {
		vars, ok := st.(*ast.VariableStatement)
		if !ok {
			continue
		}
		for _, b := range vars.List {
			id, ok := b.Target.(*ast.Identifier)
			if spec := requiredBy(b.Initializer); ok && spec != "" && strings.HasPrefix(string(id.Name), "import_") {
				from[string(id.Name)] = spec
			}
		}
	}
	if len(from) == 0 {
		return nil
	}
	out := imports{}
	note := func(e ast.Expression) ast.Expression {
		dot, ok := e.(*ast.DotExpression)
		if !ok {
			return nil
		}
		id, ok := dot.Left.(*ast.Identifier)
		if !ok || from[string(id.Name)] == "" {
			return nil
		}
		spec, name := from[string(id.Name)], dot.Identifier.Name.String()
		if name != "default" && !slices.Contains(out[spec], name) {
			out[spec] = append(out[spec], name)
		}
		return nil
	}
	w := rewriter{seen: map[uintptr]bool{}, replace: note}
	for _, st := range fn.Body.List {
		if s, ok := st.(*ast.ExpressionStatement); !ok || calleeOf(s.Expression) != "__export" {
			w.walk(reflect.ValueOf(st))
		}
	}
	return out
}

// requiredBy is the file of require("FILE"), also inside esbuild's own __toESM.
func requiredBy(e ast.Expression) string {
	switch calleeOf(e) {
	case "__toESM":
		return requiredBy(e.(*ast.CallExpression).ArgumentList[0])
	case "require":
		if s, ok := e.(*ast.CallExpression).ArgumentList[0].(*ast.StringLiteral); ok {
			return s.Value.String()
		}
	}
	return ""
}

// calleeOf is the name of the function that e calls with at least one argument, or "".
func calleeOf(e ast.Expression) string {
	if call, ok := e.(*ast.CallExpression); ok && len(call.ArgumentList) > 0 {
		if id, ok := call.Callee.(*ast.Identifier); ok {
			return id.Name.String()
		}
	}
	return ""
}

// checkImports throws when exports, which file gives, lack a name that is imported.
func (v *vm) checkImports(file string, names []string, exports goja.Value) {
	obj, ok := exports.(*goja.Object)
	if !ok {
		return
	}
	for _, name := range names {
		var has bool
		if ex := v.rt.Try(func() { has = obj.Get(name) != nil }); ex != nil || has {
			continue // a getter that throws is there
		}
		hint := ""
		switch near := runtime.Nearest(name, obj.Keys()); {
		case near != "":
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		case len(obj.Keys()) == 0:
			hint = " (it exports nothing)"
		case len(obj.Keys()) <= 10:
			hint = " (it exports " + strings.Join(obj.Keys(), ", ") + ")"
		}
		panic(v.throwable(fmt.Errorf("import: %q does not export %q%s", file, name, hint)))
	}
}
