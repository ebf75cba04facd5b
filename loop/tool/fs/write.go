package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// WriteArgs are the arguments of write.
type WriteArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// ChangeMeta is the Meta of write and edit, as JSON; their Value is the same without the
// diff.
type ChangeMeta struct {
	Path    string `json:"path"`              // absolute, links not followed
	Hash    string `json:"hash"`              // of the file as it is now
	Created bool   `json:"created,omitempty"` // there was no such file
	Diff    string `json:"diff,omitempty"`    // unified; "" when nothing changed
}

type writer struct{ f *Files }

var (
	_ tool.Tool      = writer{}
	_ tool.PathUser  = writer{}
	_ tool.Previewer = writer{}
)

// Write returns the tool write.
func (f *Files) Write() tool.Tool { return writer{f} }

func (writer) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "write",
		Description: "Writes a whole text file; its folder is made when it is missing. The line endings and the mode of a file that is there are kept. " +
			"A file that was changed by somebody else since it was read is refused: read it again first. To change a part of a file use edit.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{` +
			`"path":{"type":"string","minLength":1,"description":"absolute, or relative to the working folder"},` +
			`"content":{"type":"string","description":"the whole content"}}}`),
	}
}

func (w writer) Paths(args json.RawMessage) []tool.PathUse {
	var a WriteArgs
	if tool.DecodeArgs("write", args, &a) != nil {
		return nil
	}
	return w.f.paths(a.Path, true)
}

// planned is a change of a file that has been worked out, with nothing written.
type planned struct {
	abs, real string
	was       content
	next      []byte
	diff      string // "" when nothing would change
}

// plan works out what a call would do.
func (w writer) plan(ctx context.Context, args json.RawMessage, x *tool.Exec) (p planned, err error) {
	var a WriteArgs
	if err := tool.DecodeArgs("write", args, &a); err != nil {
		return p, err
	}
	if p.abs, p.real, err = w.f.locate(x, a.Path, true); err != nil {
		return p, err
	}
	if p.was, err = w.f.load(ctx, p.abs, p.real); err != nil {
		return p, err
	}
	if err := w.f.fresh(x, p.abs, p.real, p.was); err != nil {
		return p, err
	}
	if isUTF16(p.was.data) {
		return p, fileError(CodeEncoding, "%s is UTF-16, which write would replace by UTF-8; use a command for it", p.abs)
	}
	if strings.Contains(a.Content, replacement) && !utf8.Valid(p.was.data) {
		return p, fileError(CodeEncoding, "%s is not UTF-8, and the content has the %s that read shows for its bytes; use edit, which leaves them as they are", p.abs, replacement)
	}
	p.next = reshape(p.was.data, a.Content)
	p.diff = Diff(diffName(p.abs, p.was.there), p.abs, p.was.data, p.next)
	return p, nil
}

// Preview implements tool.Previewer.
func (w writer) Preview(ctx context.Context, args json.RawMessage, x *tool.Exec) (string, error) {
	p, err := w.plan(ctx, args, x)
	return p.diff, err
}

// Execute writes the file.
func (w writer) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	p, err := w.plan(ctx, args, x)
	if err != nil {
		return tool.Result{}, err
	}
	abs, was, next, diff := p.abs, p.was, p.next, p.diff
	if was.there && bytes.Equal(next, was.data) {
		w.f.observe(x, p.real, was.hash)
		return changeResult("write", fmt.Sprintf("%s has this content already", abs), ChangeMeta{Path: abs, Hash: was.hash})
	}
	if err := w.f.change(ctx, x, tool.ChangeWrite, abs, p.real, was, next, diff); err != nil {
		return tool.Result{}, err
	}
	verb := "wrote"
	if !was.there {
		verb = "made"
	}
	text := fmt.Sprintf("%s %s: %s", verb, abs, size(next))
	return changeResult("write", text, ChangeMeta{Path: abs, Hash: tool.Hash(next), Created: !was.there, Diff: diff})
}

func size(data []byte) string {
	lines := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	return fmt.Sprintf("%d lines, %d bytes", lines, len(data))
}

func changeResult(name, text string, meta ChangeMeta) (tool.Result, error) {
	res := tool.TextResult(text)
	var err error
	if res.Meta, err = json.Marshal(meta); err != nil {
		return res, fmt.Errorf("%s: encoding the result: %w", name, err)
	}
	meta.Diff = ""
	if res.Value, err = json.Marshal(meta); err != nil {
		return res, fmt.Errorf("%s: encoding the result: %w", name, err)
	}
	return res, nil
}
