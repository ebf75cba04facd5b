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
	"fmt"
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
func (engine) Extensions() []string { return []string{".js", ".mjs", ".cjs"} }

// Compile implements runtime.Engine. The program is not wrapped in anything, so lines
// and columns are the author's.
func (engine) Compile(src runtime.Source) (runtime.Program, error) {
	p, err := compile(src.ID, src.File, string(src.Code), strings.HasSuffix(src.File, ".mjs"))
	if err != nil {
		return nil, err
	}
	return &program{src: src, main: p, guards: guardsFor(string(src.Code)), files: map[string]*module{}}, nil
}

// program is a compiled script, shared by the VMs made from it. Immutable, but for the
// files that it has required so far.
type program struct {
	src    runtime.Source
	main   *goja.Program
	guards guardSet

	mu    sync.Mutex // guards files
	files map[string]*module
}

// compile parses and compiles one file; its error is a *runtime.ScriptError with place
// and source line.
func compile(id, file, code string, strict bool) (*goja.Program, error) {
	if len(code) > maxSource || nesting(code, false) > maxNesting {
		return nil, &runtime.ScriptError{Script: id, Name: "SyntaxError", Pos: runtime.Position{File: file},
			Message: fmt.Sprintf("the file is larger than %d MiB or nests more than %d deep", maxSource>>20, maxNesting)}
	}
	// Source maps are off: goja would read the file that a comment names.
	ast, err := goja.Parse(file, code, parser.WithDisableSourceMaps)
	if err == nil {
		var p *goja.Program
		if p, err = goja.CompileAST(ast, strict); err == nil {
			return p, nil
		}
	}
	return nil, syntaxError(id, file, code, err)
}

func syntaxError(id, file, code string, err error) error {
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
			se.Pos.Line, se.Pos.Col = p.Line, p.Column
		}
	}
	se.Source = sourceLine(code, se.Pos.Line)
	if word := strings.Fields(se.Source); len(word) > 0 && (word[0] == "import" || word[0] == "export") {
		se.Message += " (import and export are not available in this file: use require and module.exports)"
	}
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
