package js

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"dshsh/runtime"
)

// TypeScript, import and export, async generators and whatever else goja does not know go
// through esbuild, one file at a time, to a function like the one that a required file is
// wrapped in. esbuild sees a text and gives a text: what a file imports is found by our
// require, in the script's folder and nowhere else.
const (
	moduleHead = "(function (exports, require, module, __filename, __dirname) {"
	moduleTail = "\n})"

	// transformedName is the name of what esbuild gave, where nothing in it comes from the
	// author's file: stacks leave it out. The rest has the author's name and lines.
	transformedName = internalPrefix + "transformed"

	adviceAwait = "await is not available at the top level: put it into an async function, such as ctx.spawn(async () => { ... })"
)

// transforms keeps what was transformed last, by content: scripts share modules, and most
// of a script's files are as they were when it is saved.
var transforms = struct {
	sync.Mutex
	m map[[sha256.Size]byte]*transforming
}{m: map[[sha256.Size]byte]*transforming{}}

const maxTransforms = 256

// transformTime is how long a file may take. esbuild cannot be interrupted, and takes time
// in the square of some lists. It is less than the thread may be held by what is required.
// Tests set it.
var transformTime = 4 * time.Second

// transforming is a file in work or done.
type transforming struct {
	done chan struct{} // closed when what follows is set
	out  *transformed
	err  error
}

// transformed is a file that esbuild has translated. Immutable, shared.
type transformed struct {
	prog    *goja.Program
	imports imports
}

// transform compiles a file that goja cannot read; its error is a *runtime.ScriptError
// with the author's place and source line. Any goroutine.
func transform(id, file, code string, strict bool) (*transformed, error) {
	t := beginTransform(transformKey(file, code, strict), func() (*transformed, error) { return transformNew(id, file, code, strict) })
	late := time.NewTimer(transformTime)
	defer late.Stop()
	select {
	case <-t.done:
		return t.out, t.err
	case <-late.C:
		return nil, &runtime.ScriptError{Script: id, Name: "SyntaxError", Pos: runtime.Position{File: file}, Err: runtime.ErrDeadline,
			Message: fmt.Sprintf("translating it takes longer than %v: divide it into several files", transformTime)}
	}
}

func transformKey(file, code string, strict bool) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%t\x00%s", file, strict, code))
}

// beginTransform finds what is kept under key, else has fn do it. What fails is forgotten.
func beginTransform(key [sha256.Size]byte, fn func() (*transformed, error)) *transforming {
	transforms.Lock()
	defer transforms.Unlock()
	if t := transforms.m[key]; t != nil {
		return t
	}
	if len(transforms.m) >= maxTransforms {
		clear(transforms.m)
	}
	t := &transforming{done: make(chan struct{})}
	transforms.m[key] = t
	go func() {
		defer close(t.done)
		if t.out, t.err = guarded(fn); t.err != nil {
			transforms.Lock()
			defer transforms.Unlock()
			delete(transforms.m, key)
		}
	}()
	return t
}

// guarded is fn with a panic as an error: nobody above would recover it.
func guarded(fn func() (*transformed, error)) (t *transformed, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("translating it: %v", p)
		}
	}()
	return fn()
}

func transformNew(id, file, code string, strict bool) (*transformed, error) {
	loader := api.LoaderJS
	if isTypeScript(file) {
		loader = api.LoaderTS
	}
	r := api.Transform(code, api.TransformOptions{
		Loader: loader, Format: api.FormatCommonJS, Target: api.ES2022,
		// What ES2022 has and goja does not.
		Supported: map[string]bool{"async-generator": false, "for-await": false, "dynamic-import": false, "top-level-await": false},
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: "script",
		LegalComments: api.LegalCommentsNone, LogLimit: 1,
		Banner: moduleHead, Footer: moduleTail,
	})
	if len(r.Errors) > 0 {
		return nil, transformError(id, file, code, r.Errors[0])
	}
	out := string(r.Code)
	sm, err := authorMap(r.Map, file)
	if err != nil {
		return nil, fmt.Errorf("%s: reading the map of its lines: %w", file, err)
	}
	ast, err := goja.Parse(transformedName, out+"\n//# sourceMappingURL=map",
		parser.WithSourceMapLoader(func(string) ([]byte, error) { return sm, nil }))
	if err == nil {
		taken := importsOf(ast)
		if usesBigInts(code) {
			guardBigMath(ast)
		}
		var p *goja.Program
		if p, err = goja.CompileAST(ast, strict); err == nil {
			return &transformed{p, taken}, nil
		}
	}
	se := syntaxError(id, transformedName, out, err)
	pos := se.Pos
	se.Pos, se.Source = runtime.Position{File: file}, ""
	if c, err := sourcemap.Parse(transformedName, sm); err == nil && pos.File == transformedName {
		if _, _, line, col, ok := c.Source(pos.Line, pos.Col); ok {
			pos = runtime.Position{File: file, Line: line, Col: col}
		}
	}
	if pos.File == file {
		se.Pos, se.Source = pos, sourceLine(code, pos.Line)
	}
	return nil, se
}

func transformError(id, file, code string, m api.Message) error {
	se := &runtime.ScriptError{Script: id, Name: "SyntaxError", Message: m.Text, Pos: runtime.Position{File: file}}
	if strings.Contains(m.Text, "op-level await") || strings.HasPrefix(m.Text, `"await" can only be used inside`) {
		se.Message = adviceAwait
	}
	if l := m.Location; l != nil {
		se.Pos.Line, se.Pos.Col = l.Line, l.Column+1
		se.Source = sourceLine(code, l.Line)
	}
	return se
}

func isTypeScript(file string) bool {
	return strings.HasSuffix(file, ".ts") || strings.HasSuffix(file, ".mts")
}

// authorMap is esbuild's source map in the form that goja reads rightly: it looks columns
// up, and gives them out, as numbers that begin at 1, where the map's begin at 0; and it
// finds nothing behind the last entry.
func authorMap(data []byte, file string) ([]byte, error) {
	var m struct {
		Version  int      `json:"version"`
		Sources  []string `json:"sources"`
		Names    []string `json:"names"`
		Mappings string   `json:"mappings"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	m.Sources = []string{"/" + file}
	lines := strings.Split(m.Mappings, ";")
	first := true
	for i, line := range lines {
		if line == "" {
			continue
		}
		// A column of the result is relative to the one before it in its line, one of the
		// source to the one before it in the file: to move all it takes to move the first.
		segment, rest, _ := strings.Cut(line, ",")
		f := readVLQ(segment)
		if len(f) < 4 {
			continue
		}
		f[0]++
		if first {
			f[3]++
			first = false
		}
		segment = writeVLQ(f)
		if rest != "" {
			segment += "," + rest
		}
		lines[i] = segment
	}
	m.Mappings = strings.Join(lines, ";") + ";;;;AAAA"
	return json.Marshal(m)
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// readVLQ reads the numbers of a source map's segment: base 64 digits of five bits each,
// the lowest first, the sixth bit set in all but the last, the sign in the lowest bit.
func readVLQ(s string) []int {
	var out []int
	n, shift := 0, 0
	for i := range len(s) {
		d := strings.IndexByte(base64Digits, s[i])
		n |= d & 31 << shift
		if shift += 5; d&32 != 0 {
			continue
		}
		if n&1 != 0 {
			n = -(n >> 1)
		} else {
			n >>= 1
		}
		out = append(out, n)
		n, shift = 0, 0
	}
	return out
}

func writeVLQ(numbers []int) string {
	var b strings.Builder
	for _, n := range numbers {
		if n < 0 {
			n = -n<<1 | 1
		} else {
			n <<= 1
		}
		for n > 31 {
			b.WriteByte(base64Digits[n&31|32])
			n >>= 5
		}
		b.WriteByte(base64Digits[n])
	}
	return b.String()
}
