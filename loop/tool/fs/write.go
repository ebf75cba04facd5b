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
	_ tool.Tool     = writer{}
	_ tool.PathUser = writer{}
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

// Execute writes the file.
func (w writer) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a WriteArgs
	if err := tool.DecodeArgs("write", args, &a); err != nil {
		return tool.Result{}, err
	}
	abs, real, err := w.f.locate(x, a.Path, true)
	if err != nil {
		return tool.Result{}, err
	}
	was, err := w.f.load(ctx, abs, real)
	if err != nil {
		return tool.Result{}, err
	}
	if err := w.f.fresh(x, abs, real, was); err != nil {
		return tool.Result{}, err
	}
	if isUTF16(was.data) {
		return tool.Result{}, fileError(CodeEncoding, "%s is UTF-16, which write would replace by UTF-8; use a command for it", abs)
	}
	if strings.Contains(a.Content, replacement) && !utf8.Valid(was.data) {
		return tool.Result{}, fileError(CodeEncoding, "%s is not UTF-8, and the content has the %s that read shows for its bytes; use edit, which leaves them as they are", abs, replacement)
	}
	next := reshape(was.data, a.Content)
	if was.there && bytes.Equal(next, was.data) {
		w.f.observe(x, real, was.hash)
		return changeResult("write", fmt.Sprintf("%s has this content already", abs), ChangeMeta{Path: abs, Hash: was.hash})
	}
	diff := Diff(diffName(abs, was.there), abs, was.data, next)
	if err := w.f.change(ctx, x, tool.ChangeWrite, abs, real, was, next, diff); err != nil {
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
