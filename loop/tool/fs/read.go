package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// defaultLines is how many lines read shows when it is not told.
const defaultLines = 2000

// ReadArgs are the arguments of read.
type ReadArgs struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset,omitempty"` // the first line, from 1
	Limit  int64  `json:"limit,omitempty"`  // how many lines
}

// ReadValue is the Value of a read, as JSON. Its Meta is the same without the content.
type ReadValue struct {
	Path      string  `json:"path"`
	Hash      string  `json:"hash"`              // of the whole file, as tool.Hash gives it
	Content   *string `json:"content,omitempty"` // the lines shown: LF endings, valid UTF-8
	FirstLine int64   `json:"firstLine"`         // of those shown; 0 for none
	LastLine  int64   `json:"lastLine"`
	Lines     int64   `json:"lines"`     // of the whole file
	Truncated bool    `json:"truncated"` // something of the file is not in the content
}

type reader struct{ f *Files }

var (
	_ tool.Tool             = reader{}
	_ tool.ConcurrencySafer = reader{}
	_ tool.Reader           = reader{}
	_ tool.PathUser         = reader{}
)

// Read returns the tool read.
func (f *Files) Read() tool.Tool { return reader{f} }

func (reader) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "read",
		Description: fmt.Sprintf("Reads a text file and returns its lines as they are, without line numbers; at most %d at a time. "+
			"Line endings are shown as LF. Text that is not UTF-8 is shown with a replacement character for each odd byte.", defaultLines),
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{` +
			`"path":{"type":"string","minLength":1,"description":"absolute, or relative to the working folder"},` +
			`"offset":{"type":"integer","minimum":1,"description":"the first line, from 1"},` +
			`"limit":{"type":"integer","minimum":1,"description":"how many lines"}}}`),
	}
}

func (reader) ConcurrencySafe(json.RawMessage) bool { return true }

func (reader) ReadOnly(json.RawMessage) bool { return true }

func (r reader) Paths(args json.RawMessage) []tool.PathUse {
	var a ReadArgs
	if tool.DecodeArgs("read", args, &a) != nil {
		return nil
	}
	return r.f.paths(a.Path, false)
}

// Execute reads the file once, to its end: its hash is what a later change is held
// against. Memory is bounded by what is shown.
func (r reader) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a ReadArgs
	if err := tool.DecodeArgs("read", args, &a); err != nil {
		return tool.Result{}, err
	}
	abs, real, err := r.f.locate(x, a.Path, false)
	if err != nil {
		return tool.Result{}, err
	}
	file, st, stop, err := open(ctx, abs, real)
	if err != nil {
		var e *tool.Error
		if errors.As(err, &e) && e.Code == CodeNotFile {
			e.Message += "; use ls for a folder, and a command for the rest"
		}
		return tool.Result{}, err
	}
	defer stop()

	v, err := newReading(a, r.f.cfg.Limits).read(file)
	if ctx.Err() != nil {
		return tool.Result{}, tool.Aborted()
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("reading %s: %w", abs, err)
	}
	r.f.observe(x, real, v.hash)
	if v.binary {
		return tool.Result{}, fileError(CodeEncoding, "%s is a binary file of %d bytes, or UTF-16, and is not shown", abs, st.Size())
	}
	return v.result(abs, a)
}

// reading takes a file apart while it is read. One goroutine uses it.
type reading struct {
	first, last int64 // the lines asked for
	budget      int   // bytes of text that may still be shown
	lineBytes   int

	out     strings.Builder
	shown   int64  // the number of the last line shown; 0 for none
	full    bool   // the budget is used up, nothing more is shown
	cut     bool   // within lines
	line    []byte // the line being read, up to maxLine of it
	length  int64  // of the line being read
	lines   int64  // whole lines read
	crs     int64  // of them with CRLF
	invalid bool   // not UTF-8
	binary  bool
	hash    string
}

// maxLine is how much of one line is kept while it is read.
const maxLine = 256 << 10

func newReading(a ReadArgs, limits tool.Limits) *reading {
	limits = limits.WithDefaults()
	r := &reading{first: max(a.Offset, 1), budget: limits.Bytes, lineBytes: limits.LineBytes}
	n := a.Limit
	if n <= 0 {
		n = defaultLines
	}
	r.last = r.first + min(n, 1<<40) - 1
	return r
}

func (r *reading) read(file io.Reader) (*reading, error) {
	sum := sha256.New()
	buf := make([]byte, 64<<10)
	start := true
	for {
		n, err := io.ReadFull(file, buf)
		chunk := buf[:n]
		sum.Write(chunk)
		if start {
			start = false
			r.binary = isBinary(chunk) || isUTF16(chunk)
			chunk = bytes.TrimPrefix(chunk, bomUTF8)
		}
		if !r.binary {
			r.take(chunk)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if r.length > 0 {
		r.endLine(false)
	}
	r.hash = hex.EncodeToString(sum.Sum(nil))
	return r, nil
}

func (r *reading) take(chunk []byte) {
	for len(chunk) > 0 {
		part, ended := chunk, false
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			part, ended = chunk[:i+1], true
		}
		chunk = chunk[len(part):]
		r.length += int64(len(part))
		r.line = append(r.line, part[:min(len(part), maxLine-len(r.line))]...)
		if ended {
			r.endLine(true)
		}
	}
}

func (r *reading) endLine(newline bool) {
	r.lines++
	line := r.line
	whole := r.length == int64(len(line))
	r.invalid = r.invalid || whole && !utf8.Valid(line)
	if newline && whole && bytes.HasSuffix(line, []byte("\r\n")) {
		r.crs++
		line = append(line[:len(line)-2], '\n')
	}
	if r.lines >= r.first && r.lines <= r.last && !r.full {
		text, cut := tool.CutLine(line, r.lineBytes)
		if !whole {
			// So long that its end was not kept.
			text, cut = fmt.Sprintf("%s[... %d bytes cut ...]\n", strings.ToValidUTF8(string(line[:r.lineBytes]), replacement), r.length-int64(r.lineBytes)), true
		}
		if r.out.Len()+len(text) > r.budget {
			r.full = true
		} else {
			r.out.WriteString(text)
			r.shown = r.lines
			r.cut = r.cut || cut
		}
	}
	r.line, r.length = r.line[:0], 0
}

func (r *reading) result(abs string, a ReadArgs) (tool.Result, error) {
	v := ReadValue{Path: abs, Hash: r.hash, Lines: r.lines, Truncated: r.cut || r.first > 1 || r.shown < r.lines}
	var notes []string
	switch {
	case r.lines == 0:
		notes = append(notes, "the file is empty")
	case r.first > r.lines:
		return tool.Result{}, tool.InvalidArgs("read: argument \"offset\": is %d, but %s has %d lines", a.Offset, abs, r.lines)
	default:
		v.FirstLine, v.LastLine = r.first, r.shown
		if r.shown < r.lines {
			notes = append(notes, fmt.Sprintf("lines %d to %d of %d; go on with offset %d", r.first, r.shown, r.lines, r.shown+1))
		}
	}
	if r.cut {
		notes = append(notes, fmt.Sprintf("lines of more than %d bytes were cut", r.lineBytes))
	}
	if r.invalid {
		notes = append(notes, "not UTF-8: each "+replacement+" stands for bytes that cannot be shown; edit leaves them as they are")
	}
	if r.crs > 0 && r.crs < r.lines-1 {
		notes = append(notes, "mixed line endings, shown as LF")
	}
	text := r.out.String()
	v.Content = &text
	res := tool.Result{}
	var err error
	if res.Value, err = json.Marshal(v); err != nil {
		return res, fmt.Errorf("read: encoding the result: %w", err)
	}
	v.Content = nil
	if res.Meta, err = json.Marshal(v); err != nil {
		return res, fmt.Errorf("read: encoding the result: %w", err)
	}
	if len(notes) > 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "[" + strings.Join(notes, "]\n[") + "]"
	}
	res.Content = []model.Block{model.Text(text)}
	return res, nil
}
