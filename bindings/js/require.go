package js

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// module is one required file as it was read first. Immutable. A rebuilt VM runs the same
// text again.
type module struct {
	name    string // below the script folder, with slashes: how errors call it
	json    string // of a .json file
	prog    *goja.Program
	wrapped bool    // prog gives a function of exports, require, module, __filename, __dirname
	lowered bool    // by esbuild: it may use symbols that goja has not
	imports imports // what it takes by name
	guards  guardSet
}

// requireFrom is the require function of a file in dir, a path below the script folder.
// taken is what that file imports by name, which is looked for at once.
func (v *vm) requireFrom(dir string, taken imports) goja.Value {
	return v.native("require", func(c goja.FunctionCall) goja.Value {
		if v.in.Sandbox() != nil {
			panic(v.rt.NewTypeError("require: a program has no modules; what it needs from outside it gets from its tools"))
		}
		arg, ok := c.Argument(0).(goja.String)
		if !ok {
			panic(v.rt.NewTypeError("require: got %s, want string", typeName(c.Argument(0))))
		}
		if strings.HasPrefix(arg.String(), runtime.ModulePrefix) {
			obj, err := v.in.Host().Module(arg.String())
			if err != nil {
				panic(v.throwable(fmt.Errorf("require: %w", err)))
			}
			exports := v.wrapObject(obj)
			v.checkImports(arg.String(), taken[arg.String()], exports)
			return exports
		}
		exports, whole, err := v.require(dir, arg.String())
		if err != nil {
			if _, thrown := err.(*goja.Exception); thrown || isFatal(err) {
				panic(err)
			}
			panic(v.throwable(err))
		}
		if whole {
			v.checkImports(arg.String(), taken[arg.String()], exports)
		}
		return exports
	})
}

func typeName(x goja.Value) string {
	if goja.IsUndefined(x) || goja.IsNull(x) {
		return "nothing"
	}
	return x.ExportType().String()
}

// mainModule is what the script itself finds as module, so that a file can be both a
// script and a module.
func (v *vm) mainModule() *goja.Object {
	if v.main == nil {
		v.main = v.rt.NewObject()
		_ = v.main.Set("exports", v.rt.NewObject())
	}
	return v.main
}

// require finds, runs once and returns what a file exports. As in CommonJS, a file that
// is required while it runs gives what it has exported so far, which is not the whole.
func (v *vm) require(dir, name string) (exports goja.Value, whole bool, err error) {
	path, err := v.prog.resolve(dir, name)
	if err != nil {
		return nil, false, err
	}
	if m, ok := v.modules[path]; ok {
		return m.Get("exports"), !v.running[path], nil
	}
	m, err := v.prog.file(path)
	if err != nil {
		return nil, false, err
	}
	mod := v.rt.NewObject()
	_ = mod.Set("exports", v.rt.NewObject())
	if v.modules == nil {
		v.modules, v.running = map[string]*goja.Object{}, map[string]bool{}
	}
	v.modules[path], v.running[path] = mod, true
	defer delete(v.running, path)
	if err := v.runModule(m, mod); err != nil {
		delete(v.modules, path)
		return nil, false, err
	}
	return mod.Get("exports"), true, nil
}

func (v *vm) runModule(m *module, mod *goja.Object) error {
	if m.prog == nil {
		parse, _ := goja.AssertFunction(v.rt.Get("JSON").(*goja.Object).Get("parse"))
		x, err := parse(goja.Undefined(), v.rt.ToValue(m.json))
		if isFatal(err) {
			return err
		}
		if err != nil {
			return fmt.Errorf("require: %s: %s", m.name, runtime.Message(v.scriptError(err)))
		}
		return mod.Set("exports", x)
	}
	v.installMore(m.guards)
	return v.runFile(m, mod)
}

// runFile runs a file's code; mod is what it sees as module.
func (v *vm) runFile(m *module, mod *goja.Object) error {
	if m.lowered {
		v.addSymbols()
	}
	wrapped, err := v.rt.RunProgram(m.prog)
	if err != nil {
		return err
	}
	if !m.wrapped {
		return nil
	}
	run, ok := goja.AssertFunction(wrapped)
	if !ok {
		return fmt.Errorf("require: %s closes a bracket that it has not opened", m.name)
	}
	exports := mod.Get("exports")
	_, err = run(exports, exports, v.requireFrom(filepath.Dir(filepath.FromSlash(m.name)), m.imports), mod, v.rt.ToValue(m.name), v.rt.ToValue(filepath.ToSlash(filepath.Dir(m.name))))
	return err
}

// resolve finds the file that name means in a file of dir: as it is, with an ending, or
// as a folder's index. Links are followed, and nothing outside the script folder is found.
func (p *program) resolve(dir, name string) (string, error) {
	switch {
	case p.src.Dir == "" || p.src.Read == nil:
		return "", errors.New("require: this script has no folder to require from")
	case !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") && name != "." && name != "..":
		return "", fmt.Errorf("require: %q is not a relative path; files of the script folder are required as \"./name.js\", and there are no packages%s", name, runtime.ModuleHint(name))
	}
	base := filepath.Join(p.src.Dir, dir, filepath.FromSlash(name))
	if !within(p.src.Dir, base) {
		return "", fmt.Errorf("require: %q is outside the script folder", name)
	}
	for _, path := range candidates(base) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			p.noteMissing(path)
			continue
		}
		if st, err := os.Stat(real); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if !within(p.src.Dir, real) {
			return "", fmt.Errorf("require: %q is outside the script folder", name)
		}
		return real, nil
	}
	return "", fmt.Errorf("require: cannot find %q in %s", name, filepath.ToSlash(filepath.Join(filepath.Base(p.src.Dir), dir)))
}

// candidates are the files that a path without its ending may mean, in order. TypeScript
// calls a file.ts that it imports file.js.
func candidates(base string) []string {
	out := []string{base}
	for js, ts := range map[string]string{".js": ".ts", ".mjs": ".mts"} {
		if name, ok := strings.CutSuffix(base, js); ok {
			return append(out, name+ts)
		}
	}
	for _, ext := range []string{".js", ".ts", ".mjs", ".mts", ".cjs", ".json"} {
		out = append(out, base+ext)
	}
	return append(out, filepath.Join(base, "index.js"), filepath.Join(base, "index.ts"))
}

// noteMissing asks for a file that is not there, which notes it: its appearing is a
// change of the script.
func (p *program) noteMissing(path string) {
	if filepath.Ext(path) == "" {
		return
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil && within(p.src.Dir, dir) {
		_, _ = p.src.Read(filepath.Join(dir, filepath.Base(path)))
	}
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// file reads and compiles a required file, once for all VMs of the program.
func (p *program) file(path string) (*module, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.files[path]; m != nil {
		return m, nil
	}
	rel, err := filepath.Rel(p.src.Dir, path)
	if err != nil {
		return nil, fmt.Errorf("require: %w", err)
	}
	code, err := p.src.Read(path)
	if err != nil {
		return nil, fmt.Errorf("require: %w", err)
	}
	m := &module{name: filepath.ToSlash(rel)}
	switch filepath.Ext(path) {
	case ".json":
		m.json = strings.TrimPrefix(string(code), "\uFEFF")
	case ".js", ".mjs", ".cjs", ".ts", ".mts":
		if m, err = compileFile(p.src.ID, m.name, string(code), true); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("require: %s: only .js, .ts, .mjs, .mts, .cjs and .json files can be required", m.name)
	}
	p.files[path] = m
	return m, nil
}

var _ runtime.Program = (*program)(nil)
