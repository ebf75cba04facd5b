package lua

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// module is a required file. Used on the host thread.
type module struct {
	name   string // below the script's folder, with slashes
	loaded bool
	value  glua.LValue
}

// require runs a file of the script's own folder once per VM and gives what it returned,
// or true. './lib' and '../lib' are seen from the file that asks, 'lib' and 'sub.lib' from
// the folder; the ending .lua may be left out. Links are resolved; what lies outside of
// the folder is refused. Names beginning with dshsh/ are the host's modules.
func (vm *machine) require(L *glua.LState) int {
	asked := vm.str(L, 1)
	if strings.HasPrefix(asked, runtime.ModulePrefix) {
		obj, err := vm.host.Module(asked)
		if err != nil {
			vm.raisef(L, "require '%s': %v", asked, err)
		}
		L.Push(vm.object(obj))
		return 1
	}
	path, name, err := vm.resolve(asked)
	if err != nil {
		vm.raisef(L, "require '%s': %v", asked, err)
	}
	m := vm.modules[path]
	if m == nil {
		m = vm.loadModule(L, path, name, asked)
	} else if !m.loaded {
		vm.raisef(L, "require '%s': the files require each other: %s", asked, vm.cycle(m))
	}
	L.Push(m.value)
	return 1
}

func (vm *machine) loadModule(L *glua.LState, path, name, asked string) *module {
	code, err := vm.program.src.Read(path)
	if err != nil {
		vm.raisef(L, "require '%s': %v", asked, err)
	}
	if vm.modules == nil {
		vm.modules = map[string]*module{}
	}
	if strings.HasSuffix(name, ".json") {
		text := strings.TrimPrefix(string(code), "\xef\xbb\xbf")
		m := &module{name: name, loaded: true, value: vm.decodeJSON(L, text, "require '"+asked+"'")}
		vm.modules[path] = m
		return m
	}
	return vm.runModule(L, path, name, asked, code)
}

func (vm *machine) runModule(L *glua.LState, path, name, asked string, code []byte) *module {
	proto, err := vm.program.engine.compile(name, code)
	if err != nil {
		vm.raise(L, fmt.Errorf("require '%s': %w", asked, err))
	}
	vm.chunks[name] = true
	m := &module{name: name}
	vm.modules[path] = m
	vm.asking = append(vm.asking, m)
	defer func() {
		vm.asking = vm.asking[:len(vm.asking)-1]
		if !m.loaded {
			delete(vm.modules, path)
		}
	}()
	L.Push(vm.base.NewFunctionFromProto(proto))
	L.Push(glua.LString(asked))
	// While a file runs nothing else may: another hook would find it half done.
	vm.host.Thread.Atomic(func() { vm.call(L, 1, 1) })
	m.value = L.Get(-1)
	L.Pop(1)
	if m.value == glua.LNil {
		m.value = glua.LTrue
	}
	m.loaded = true
	return m
}

// cycle names the files from m on that are waiting for each other.
func (vm *machine) cycle(m *module) string {
	var names []string
	for _, a := range vm.asking {
		if a == m || len(names) > 0 {
			names = append(names, a.name)
		}
	}
	return strings.Join(append(names, m.name), " -> ")
}

// resolve finds the file that is meant: its real path, and its name below the folder.
func (vm *machine) resolve(asked string) (path, name string, err error) {
	src := vm.program.src
	if src.Dir == "" || src.Read == nil {
		return "", "", fmt.Errorf("this script has no folder to require from")
	}
	rel, ending := strings.TrimSuffix(asked, ".lua"), ".lua"
	if strings.HasSuffix(asked, ".json") {
		rel, ending = strings.TrimSuffix(asked, ".json"), ".json"
	}
	switch {
	case rel == "" || strings.HasPrefix(rel, "/") || filepath.IsAbs(rel) || strings.ContainsAny(rel, "\x00\\"):
		return "", "", fmt.Errorf("give the name of a file in the script's folder")
	case strings.HasPrefix(rel, "./") || strings.HasPrefix(rel, "../"):
		rel = filepath.Join(filepath.Dir(filepath.FromSlash(vm.Where().File)), filepath.FromSlash(rel))
	case !strings.Contains(rel, "/"):
		rel = strings.ReplaceAll(rel, ".", string(filepath.Separator))
	}
	full := filepath.Join(src.Dir, rel) + ending
	if !below(src.Dir, full) {
		return "", "", fmt.Errorf("it lies outside of the script's folder")
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		if os.IsNotExist(err) {
			_, _ = src.Read(full) // so that its appearing counts as a change
			err = fmt.Errorf("there is no file %s in the script's folder%s", filepath.ToSlash(rel)+ending, runtime.ModuleHint(strings.ReplaceAll(asked, ".", "/")))
		}
		return "", "", err
	}
	if !below(src.Dir, real) {
		return "", "", fmt.Errorf("it lies outside of the script's folder")
	}
	name, err = filepath.Rel(src.Dir, real)
	return real, filepath.ToSlash(name), err
}

func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
