// Package js runs scripts in JavaScript, on goja.
//
// One Runtime per script. Everything but Engine and Program is used on the host thread
// only: a Runtime has one stack, and the thread's rule that nothing leaves it with a
// JavaScript frame open is what keeps that stack in order. What may wait is begun with
// Thread.Start and gives the script a promise; a listener's own promise is awaited with
// Thread.Wait by a chain that has no JavaScript frame.
//
// Values cross as runtime.Value says: a *runtime.View becomes a read-only object or array
// whose members are converted when they are read, and comes back as the same *View; a
// runtime.Object becomes an object with the members of its class.
package js

import (
	"errors"
	"strings"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"dshsh/runtime"
)

type engine struct{}

// Engine returns the JavaScript engine. It is stateless: any goroutine may use it.
func Engine() runtime.Engine { return engine{} }

// Language implements runtime.Engine.
func (engine) Language() string { return "js" }

// Extensions implements runtime.Engine.
func (engine) Extensions() []string { return []string{".js", ".mjs", ".cjs", ".ts", ".mts"} }

// Compile implements runtime.Engine. A program that goja reads as it is, is not wrapped in
// anything, so lines and columns are the author's.
func (engine) Compile(src runtime.Source) (runtime.Program, error) {
	code := string(src.Code)
	m, err := compileFile(src.ID, src.File, code, false)
	if err != nil {
		return nil, err
	}
	return &program{src: src, main: m, files: map[string]*module{}}, nil
}

// program is a compiled script, shared by the VMs made from it. Immutable, but for the
// files that it has required so far.
type program struct {
	src  runtime.Source
	main *module

	mu    sync.Mutex // guards files
	files map[string]*module
}

// compileFile compiles one file, wrapped in a function if it is one that was required; its
// error is a *runtime.ScriptError with place and source line. goja gets it first: what it
// can read needs nobody else, and it reads no import and no export, so that nothing has to
// be guessed from the text.
func compileFile(id, file, code string, required bool) (*module, error) {
	m := &module{name: file, guards: guardsFor(code), wrapped: required}
	if err := tooComplex(id, file, code); err != nil {
		return nil, err
	}
	strict := strings.HasSuffix(file, ".mjs") || strings.HasSuffix(file, ".mts")
	if isTypeScript(file) {
		m.wrapped, m.lowered = true, true
		t, err := transform(id, file, code, strict)
		if err != nil {
			return nil, err
		}
		m.prog, m.imports = t.prog, t.imports
		return m, nil
	}
	text := code
	if required {
		text = moduleHead + hashbang(code) + moduleTail
	}
	var err error
	if m.prog, err = compile(id, file, text, strict); err == nil {
		return m, nil
	}
	if required {
		// The wrapper shifts the first line, and hides a bracket too many.
		if _, plain := compile(id, file, code, strict); plain != nil {
			err = plain
		}
	}
	t, terr := transform(id, file, code, strict)
	if terr == nil {
		m.prog, m.imports, m.wrapped, m.lowered = t.prog, t.imports, true, true
		return m, nil
	}
	return nil, worse(err, terr)
}

// hashbang makes a first line for a system that starts the file a comment.
func hashbang(code string) string {
	if strings.HasPrefix(code, "#!") {
		return "//" + code
	}
	return code
}

// worse is the error to show of a file that neither goja nor esbuild could read: goja's,
// unless it stumbled over something that is merely new to it.
func worse(gojas, esbuilds error) error {
	var g, e *runtime.ScriptError
	if !errors.As(gojas, &g) || !errors.As(esbuilds, &e) {
		return gojas
	}
	at := g.Source[min(max(g.Pos.Col-1, 0), len(g.Source)):]
	if errors.Is(e, runtime.ErrDeadline) || e.Message == adviceAwait || e.Pos.Line > 0 && e.Pos.Line != g.Pos.Line || strings.HasPrefix(at, "import") || strings.HasPrefix(at, "export") {
		return esbuilds
	}
	return gojas
}

// compile parses and compiles a text with goja; its error is a *runtime.ScriptError with
// place and source line.
func compile(id, file, code string, strict bool) (*goja.Program, error) {
	big := usesBigInts(code)
	// Source maps are off: goja would read the file that a comment names.
	ast, err := goja.Parse(file, code, parser.WithDisableSourceMaps)
	if err == nil {
		if big {
			guardBigMath(ast)
		}
		var p *goja.Program
		if p, err = goja.CompileAST(ast, strict); err == nil {
			return p, nil
		}
	}
	return nil, syntaxError(id, file, code, err)
}

func syntaxError(id, file, code string, err error) *runtime.ScriptError {
	se := &runtime.ScriptError{Script: id, Name: "SyntaxError", Message: err.Error(), Pos: runtime.Position{File: file}, Err: err}
	if _, perr := parser.ParseFile(nil, file, code, 0, parser.WithDisableSourceMaps); perr != nil {
		var list parser.ErrorList
		if errors.As(perr, &list) && len(list) > 0 {
			se.Message = list[0].Message
			se.Pos.Line, se.Pos.Col = list[0].Position.Line, list[0].Position.Column
		}
	} else {
		var cse *goja.CompilerSyntaxError
		if errors.As(err, &cse) && cse.File != nil {
			se.Message = cse.Message
			p := cse.File.Position(cse.Offset)
			se.Pos = runtime.Position{File: p.Filename, Line: p.Line, Col: p.Column}
		}
	}
	se.Source = sourceLine(code, se.Pos.Line)
	return se
}

func sourceLine(code string, line int) string {
	if line < 1 {
		return ""
	}
	for i := 1; i < line; i++ {
		_, rest, ok := strings.Cut(code, "\n")
		if !ok {
			return ""
		}
		code = rest
	}
	text, _, _ := strings.Cut(code, "\n")
	return strings.TrimRight(text, "\r")
}
