// Package lua runs scripts in Lua 5.1 (gopher-lua) on a runtime.Host. It knows the host
// only by the runtime package: events, live objects and values, and nothing of agents.
//
// A script has one virtual machine. Each call into it runs on a Lua thread of its own,
// on the caller's goroutine, so that a function that waits parks that goroutine, also
// inside pcall, gsub, sort and coroutines, while other hooks of the same script run.
//
// What a script finds beside ctx: the base functions without those that reach files;
// string with a matcher that can be interrupted, table, math, coroutine; os with time,
// clock, date and difftime; debug.traceback; print; require of Lua and JSON files within
// the script's folder; json (encode, decode, null, array, object, int); text (split,
// lines, trim, contains, startswith, endswith, find, match, findall, replace, utf8),
// whose expressions are RE2.
//
// What an event gives is read as if it were a table and cannot be changed: null reads as
// nil, a list keeps its length, and :totable() gives a copy in which null is json.null. A
// table is a list if its keys are 1 to n, an object if they are strings, and nothing else;
// an empty one is an object, unless it has a metatable, which would hide an answer. The
// order of pairs, random numbers, the time and the text of a table follow from the script
// and the host, not from the run. pcall and coroutines differ from gopher-lua's own where
// those lose variables, results or the place of an error.
package lua

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"dshsh/runtime"
)

// maxSource is how many bytes of source text one chunk may have.
const maxSource = 1 << 20

func init() {
	// A table with one element at a huge index would be filled up to it, which takes
	// seconds and cannot be interrupted. Beyond this the element is hashed.
	glua.MaxArrayIndex = 1 << 20
}

// Engine returns the Lua engine. It is immutable, may be used from any goroutine and by
// several hosts, and keeps compiled chunks by the hash of their text.
func Engine() runtime.Engine { return &engine{protos: map[protoKey]*glua.FunctionProto{}} }

type engine struct {
	mu     sync.Mutex // guards protos
	protos map[protoKey]*glua.FunctionProto
}

var _ runtime.Engine = (*engine)(nil)

// protoKey names a compiled chunk: its name is part of what is compiled.
type protoKey struct {
	name string
	hash [sha256.Size]byte
}

// maxProtos bounds the cache; when it is full it starts anew, since what is in use is
// held by the programs anyway.
const maxProtos = 128

func (*engine) Language() string     { return "lua" }
func (*engine) Extensions() []string { return []string{".lua"} }

// program is a compiled script. Immutable.
type program struct {
	engine *engine
	src    runtime.Source
	proto  *glua.FunctionProto
}

var _ runtime.Program = (*program)(nil)

// Compile parses src. A syntax error is a *runtime.ScriptError with place and line.
func (e *engine) Compile(src runtime.Source) (runtime.Program, error) {
	proto, err := e.compile(src.File, src.Code)
	if err != nil {
		var se *runtime.ScriptError
		if errors.As(err, &se) {
			se.Script = src.ID
		}
		return nil, err
	}
	return &program{engine: e, src: src, proto: proto}, nil
}

// NewVM makes a virtual machine for in. It runs no script code.
func (p *program) NewVM(in *runtime.Instance) (runtime.VM, error) { return newVM(p, in), nil }

// compile turns one chunk into code, or takes it from the cache.
func (e *engine) compile(name string, code []byte) (*glua.FunctionProto, error) {
	key := protoKey{name, sha256.Sum256(code)}
	e.mu.Lock()
	proto := e.protos[key]
	e.mu.Unlock()
	if proto != nil {
		return proto, nil
	}
	proto, err := compileChunk(name, code)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.protos) >= maxProtos {
		clear(e.protos)
	}
	e.protos[key] = proto
	return proto, nil
}

// compileChunk parses and compiles. Text that is nested too deeply is refused before the
// parser sees it: the compiler recurses, and a Go stack that overflows cannot be caught.
func compileChunk(name string, code []byte) (proto *glua.FunctionProto, err error) {
	code = plainText(code)
	fail := func(line, col int, format string, args ...any) error {
		return &runtime.ScriptError{Name: "SyntaxError", Message: fmt.Sprintf(format, args...),
			Pos: runtime.Position{File: name, Line: line, Col: col}, Source: sourceLine(code, line)}
	}
	if len(code) > maxSource {
		return nil, fail(0, 0, "larger than %d MiB of source text", maxSource>>20)
	}
	if bytes.HasPrefix(code, []byte("\x1bLua")) {
		return nil, fail(0, 0, "compiled Lua code is not taken; give the source text")
	}
	if line, msg := scanNesting(code); msg != "" {
		return nil, fail(line, 0, "%s", msg)
	}
	defer func() {
		if p := recover(); p != nil {
			proto, err = nil, fail(0, 0, "cannot be compiled: %v", p)
		}
	}()
	chunk, err := parse.Parse(bytes.NewReader(code), name)
	if err != nil {
		var pe *parse.Error
		if !errors.As(err, &pe) {
			return nil, fail(0, 0, "%v", err)
		}
		msg := strings.TrimSpace(pe.Message)
		if pe.Pos.Line == parse.EOF {
			return nil, fail(lastLine(code), 0, "%s at the end of the file", msg)
		}
		return nil, fail(pe.Pos.Line, pe.Pos.Column, "%s near '%s'", msg, pe.Token)
	}
	proto, err = glua.Compile(chunk, name)
	if err != nil {
		var ce *glua.CompileError
		if errors.As(err, &ce) {
			if ce.Line <= 0 { // of the chunk itself
				ce.Line = tooMuch(chunk, name, ce.Message)
			}
			return nil, fail(ce.Line, 0, "%s", limits.Replace(ce.Message))
		}
		return nil, fail(0, 0, "%v", err)
	}
	compact(proto)
	return proto, nil
}

// compact gives back what the compiler has set aside: room for a thousand instructions
// in every function, however short.
func compact(p *glua.FunctionProto) {
	p.Code = exact(p.Code)
	p.Constants = exact(p.Constants)
	p.DbgSourcePositions = exact(p.DbgSourcePositions)
	p.DbgLocals = exact(p.DbgLocals)
	p.DbgCalls = exact(p.DbgCalls)
	p.DbgUpvalues = exact(p.DbgUpvalues)
	p.FunctionPrototypes = exact(p.FunctionPrototypes)
	for _, f := range p.FunctionPrototypes {
		compact(f)
	}
}

func exact[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

// limits completes what the compiler says of what is too much for one function.
var limits = strings.NewReplacer(
	"too many local variables", "too many local variables in one function (200 at most); put some into a table or a do ... end block",
	"too many constants", "too many constants in one function; split it",
	"register overflow(too many local variables)", "an expression or a call has too many parts; split it",
	"register overflow", "an expression or a call has too many parts; split it",
)

// tooMuch is the line of the statement of a chunk up to which it can be compiled: the
// compiler gives no line for what is too much for the chunk as a whole.
func tooMuch(chunk []ast.Stmt, name, msg string) int {
	n := sort.Search(len(chunk), func(n int) bool {
		_, err := glua.Compile(chunk[:n+1], name)
		var ce *glua.CompileError
		return errors.As(err, &ce) && ce.Message == msg
	})
	if n == len(chunk) {
		return 1
	}
	return chunk[n].Line()
}

// plainText drops a byte order mark and turns a first line that begins with # into a
// comment, keeping the numbers of the lines.
func plainText(code []byte) []byte {
	code = bytes.TrimPrefix(code, []byte("\xef\xbb\xbf"))
	if len(code) > 0 && code[0] == '#' {
		end := bytes.IndexByte(code, '\n')
		if end < 0 {
			end = len(code)
		}
		return code[end:]
	}
	return code
}

// sourceLine is the text of a line, from 1; "" when there is none.
func sourceLine(code []byte, line int) string {
	for ; line > 1; line-- {
		_, rest, ok := bytes.Cut(code, []byte("\n"))
		if !ok {
			return ""
		}
		code = rest
	}
	if line < 1 {
		return ""
	}
	text, _, _ := bytes.Cut(code, []byte("\n"))
	if len(text) > 400 {
		text = text[:400]
	}
	return strings.ToValidUTF8(strings.TrimRight(string(text), "\r"), "?")
}

func lastLine(code []byte) int {
	return bytes.Count(bytes.TrimRight(code, "\n"), []byte("\n")) + 1
}
