package lua_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dshsh/runtime"
)

// folder is a script folder on disk with what has been read of it.
type folder struct {
	dir  string
	read []string
}

func newFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{dir: filepath.Join(dir, "scripts")}
	for name, text := range files {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *folder) load(r *rig, name string) (err error) {
	r.do(func() {
		code, rerr := os.ReadFile(filepath.Join(f.dir, name))
		if rerr != nil {
			r.t.Fatal(rerr)
		}
		var p runtime.Program
		p, err = r.engine.Compile(runtime.Source{ID: "project/" + name, File: name, Dir: f.dir, Code: code, Read: func(path string) ([]byte, error) {
			rel, _ := filepath.Rel(f.dir, path)
			f.read = append(f.read, filepath.ToSlash(rel))
			return os.ReadFile(path)
		}})
		if err != nil {
			return
		}
		r.given = nil
		r.in, err = r.host.Load(runtime.ScriptFile{ID: "project/" + name, File: name, Layer: runtime.LayerProject, Program: p})
		if err == nil {
			r.host.Activate([]*runtime.Instance{r.in})
		}
	})
	return err
}

func TestRequire(t *testing.T) {
	f := newFolder(t, map[string]string{
		"a.lua":                "local give = ctx.rig.give\nlocal lib = require './lib'\ngive(lib.name, require('lib') == lib, require('lib.lua') == lib, require('sub.inner').up, require('./sub/inner').name, require 'nothing_returned', require 'linked')\ngive(require('data.json'), require('./sub/../data.json') == require('data.json'), require('sub/near.json'))",
		"data.json":            "\xef\xbb\xbf{\"list\": [], \"n\": 12345678901234567890}\n",
		"sub/near.json":        "[1]",
		"lib.lua":              "ctx.rig.give('runs once') local M = { name = 'lib' } return M",
		"sub/inner.lua":        "return { name = ..., up = require('../lib').name .. require('./near') }",
		"sub/near.lua":         "return ' near'",
		"nothing_returned.lua": "x = 1",
	})
	if err := os.Symlink("lib.lua", filepath.Join(f.dir, "linked.lua")); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, runtime.Limits{})
	if err := f.load(r, "a.lua"); err != nil {
		t.Fatal(err)
	}
	if got := r.said(); got != `runs once lib true true lib near sub.inner true {"name":"lib"} {"list":[],"n":12345678901234567890} true [1]` {
		t.Errorf("gave %s", got)
	}
	slices.Sort(f.read)
	if got := strings.Join(f.read, " "); got != "data.json lib.lua nothing_returned.lua sub/inner.lua sub/near.json sub/near.lua" {
		t.Errorf("read %s", got)
	}
}

func TestRequireRefused(t *testing.T) {
	f := newFolder(t, map[string]string{
		"outside.lua": "", "one.lua": "return require 'two'", "two.lua": "return require './three'", "three.lua": "return require 'one'",
		"broken.json": "{\n  \"a\": tru\n}", "broken.lua": "local x\nx = = 1", "throws.lua": "local function f()\n error('boom')\nend\nf()", "self.lua": "require 'self'",
	})
	secret := filepath.Join(filepath.Dir(f.dir), "secret.lua")
	if err := os.WriteFile(secret, []byte("return 'secret'"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(secret, filepath.Join(f.dir, "leak.lua")), os.Symlink("..", filepath.Join(f.dir, "up"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ code, want string }{
		{`require 'nothing'`, "a.lua:1: require 'nothing': there is no file nothing.lua in the script's folder"},
		{`require 'socket.http'`, "a.lua:1: require 'socket.http': there is no file socket/http.lua in the script's folder (did you mean \"dshsh/http\"?)"},
		{`require '../secret'`, "a.lua:1: require '../secret': it lies outside of the script's folder"},
		{`require './sub/../../secret'`, "a.lua:1: require './sub/../../secret': it lies outside of the script's folder"},
		{`require 'leak'`, "a.lua:1: require 'leak': it lies outside of the script's folder"},
		{`require 'up/secret'`, "a.lua:1: require 'up/secret': it lies outside of the script's folder"},
		{`require '/etc/passwd'`, "a.lua:1: require '/etc/passwd': give the name of a file in the script's folder"},
		{`require ''`, "a.lua:1: require '': give the name of a file in the script's folder"},
		{`require '..'`, "a.lua:1: require '..': it lies outside of the script's folder"},
		{`require {}`, "a.lua:1: bad argument #1 to require (string expected, got table)"},
		{`require 'one'`, "three.lua:1: require 'one': the files require each other: one.lua -> two.lua -> three.lua -> one.lua"},
		{`require 'self'`, "self.lua:1: require 'self': the files require each other: self.lua -> self.lua"},
		{`require 'broken'`, "a.lua:1: require 'broken': broken.lua:2: syntax error near '='"},
		{`require './broken.json'`, "a.lua:1: require './broken.json': line 2 column 8: no value begins with 't'"},
		{`require 'none.json'`, "a.lua:1: require 'none.json': there is no file none.json in the script's folder"},
		{`require 'throws'`, "throws.lua:2: boom"},
	} {
		if err := os.WriteFile(filepath.Join(f.dir, "a.lua"), []byte(c.code), 0o600); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, runtime.Limits{})
		err := f.load(r, "a.lua")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.code, err, c.want)
		}
	}
	if !slices.Contains(f.read, "nothing.lua") {
		t.Error("the missing file has not been asked for, so that its appearing would go unnoticed")
	}
}

// TestRequireAgain: a module that failed may be required again, and two VMs of one
// program do not share what it returned.
func TestRequireAgain(t *testing.T) {
	f := newFolder(t, map[string]string{
		"a.lua":     "ctx.rig.give(pcall(require, 'flaky')) ok = true ctx.rig.give(require('flaky').n)",
		"flaky.lua": "if not ok then error('not yet', 0) end return { n = 1 }",
	})
	r := newRig(t, runtime.Limits{})
	for range 2 {
		if err := f.load(r, "a.lua"); err != nil {
			t.Fatal(err)
		}
		if got := r.said(); got != "false not yet 1" {
			t.Errorf("gave %s", got)
		}
	}
}
