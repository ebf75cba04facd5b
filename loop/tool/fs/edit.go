package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"strings"
	"unicode/utf8"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// EditArgs are the arguments of edit.
type EditArgs struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all,omitempty"` // each place; else there must be one only
}

type editor struct{ f *Files }

var (
	_ tool.Tool      = editor{}
	_ tool.PathUser  = editor{}
	_ tool.Previewer = editor{}
)

// Edit returns the tool edit.
func (f *Files) Edit() tool.Tool { return editor{f} }

func (editor) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "edit",
		Description: "Replaces text in a file. The old text must be in the file letter for letter, and in one place only unless all is true. " +
			"Whole lines are also found when only the white space at their ends differs; the new text is then indented as they are. " +
			"Everything else in the file stays as it is.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path","old","new"],"properties":{` +
			`"path":{"type":"string","minLength":1,"description":"absolute, or relative to the working folder"},` +
			`"old":{"type":"string","minLength":1,"description":"the text to replace, with enough around it to be found in one place only"},` +
			`"new":{"type":"string","description":"what to put in its place"},` +
			`"all":{"type":"boolean","description":"replace it wherever it is"}}}`),
	}
}

func (e editor) Paths(args json.RawMessage) []tool.PathUse {
	var a EditArgs
	if tool.DecodeArgs("edit", args, &a) != nil {
		return nil
	}
	return e.f.paths(a.Path, true)
}

// plan works out what a call would do; places and loose say where, see apply.
func (e editor) plan(ctx context.Context, args json.RawMessage, x *tool.Exec) (p planned, places []place, loose bool, err error) {
	var a EditArgs
	if err := tool.DecodeArgs("edit", args, &a); err != nil {
		return p, nil, false, err
	}
	switch {
	case a.Old == "":
		return p, nil, false, tool.InvalidArgs("edit: argument \"old\": is empty; to make a file or replace all of it use write")
	case a.Old == a.New:
		return p, nil, false, tool.InvalidArgs("edit: arguments \"old\" and \"new\" are the same, so there is nothing to change")
	}
	if p.abs, p.real, err = e.f.locate(x, a.Path, true); err != nil {
		return p, nil, false, err
	}
	if p.was, err = e.f.load(ctx, p.abs, p.real); err != nil {
		return p, nil, false, err
	}
	if !p.was.there {
		return p, nil, false, openError(p.abs, p.real, iofs.ErrNotExist)
	}
	if err := e.f.fresh(x, p.abs, p.real, p.was); err != nil {
		return p, nil, false, err
	}
	if isBinary(p.was.data) || isUTF16(p.was.data) {
		return p, nil, false, fileError(CodeEncoding, "%s is a binary file or UTF-16; use a command for it", p.abs)
	}
	places, p.next, loose, err = apply(p.abs, p.was.data, a)
	if err != nil {
		return p, nil, false, err
	}
	if bytes.Equal(p.next, p.was.data) {
		return p, nil, false, fileError(CodeNoMatch, "the edit of %s changes nothing: it differs from what is there in line endings or indentation only, which are kept", p.abs)
	}
	p.diff = Diff(p.abs, p.abs, p.was.data, p.next)
	return p, places, loose, nil
}

// Preview implements tool.Previewer.
func (e editor) Preview(ctx context.Context, args json.RawMessage, x *tool.Exec) (string, error) {
	p, _, _, err := e.plan(ctx, args, x)
	return p.diff, err
}

// Execute edits the file.
func (e editor) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	p, places, loose, err := e.plan(ctx, args, x)
	if err != nil {
		return tool.Result{}, err
	}
	abs, was, next, diff := p.abs, p.was, p.next, p.diff
	if err := e.f.change(ctx, x, tool.ChangeEdit, abs, p.real, was, next, diff); err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("edited %s: replaced the text at line %s", abs, lineList(was.data, places))
	if loose {
		text += "\n[the white space of the old text is not that of the file; the new text was indented as the file is: look at it if that matters]"
	}
	return changeResult("edit", text, ChangeMeta{Path: abs, Hash: tool.Hash(next), Diff: diff})
}

// place is one occurrence of the old text: the bytes [from, to) of the file.
type place struct{ from, to int }

// apply finds the old text and replaces it. Bytes outside of the places found are copied
// as they are. loose says that the text was found but for white space.
func apply(abs string, data []byte, a EditArgs) (places []place, next []byte, loose bool, err error) {
	places, exact := occurrences(data, a.Old), true
	texts := []string{a.New} // for the places in turn; the last one for all that follow
	if len(places) == 0 || splitsCRLF(data, places) {
		places = nil
		// The model saw LF for CRLF, or takes an LF file for a CRLF one.
		v := newLFView(data)
		for _, p := range occurrences(v.text, toLF(a.Old)) {
			places = append(places, place{v.offset(p.from), v.offset(p.to)})
		}
		exact = false
		if len(places) == 0 && utf8.Valid(data) {
			loose = true
			texts = texts[:0]
			for _, m := range findLoosely(string(v.text), a.Old, a.New) {
				places = append(places, place{v.offset(m.from), v.offset(m.to)})
				texts = append(texts, m.text)
			}
		}
	}
	switch {
	case len(places) == 0:
		return nil, nil, false, notFound(abs, data, a.Old)
	case len(places) > 1 && !a.All:
		return nil, nil, false, fileError(CodeAmbiguous, "the old text is in %s %d times (lines %s); give more of what is around it, or set all to true",
			abs, len(places), lineList(data, places))
	}
	if !utf8.Valid(data) {
		if err := otherEncoding(abs, data, places, a.New); err != nil {
			return nil, nil, false, err
		}
	}
	var out bytes.Buffer
	at := 0
	for i, p := range places {
		out.Write(data[at:p.from])
		out.WriteString(fitEnding(texts[min(i, len(texts)-1)], endingAt(data, p.from), exact))
		at = p.to
	}
	out.Write(data[at:])
	return places, out.Bytes(), loose, nil
}

func occurrences(data []byte, old string) []place {
	var places []place
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(old))
		if i < 0 {
			return places
		}
		places = append(places, place{at + i, at + i + len(old)})
		at += i + len(old)
	}
}

// splitsCRLF reports whether a place begins or ends between the two bytes of a CRLF, as
// a text does that begins with LF.
func splitsCRLF(data []byte, places []place) bool {
	for _, p := range places {
		for _, at := range [2]int{p.from, p.to} {
			if at > 0 && at < len(data) && data[at-1] == '\r' && data[at] == '\n' {
				return true
			}
		}
	}
	return false
}

// fitEnding gives new text the line ending of its surroundings. A model that matched
// exactly and writes CRs means them.
func fitEnding(text, ending string, exact bool) string {
	switch {
	case exact && strings.Contains(text, "\r"):
		return text
	case ending == "\r\n":
		return toCRLF(text)
	}
	return toLF(text)
}

// otherEncoding refuses edits that would damage text in an encoding that we do not know.
func otherEncoding(abs string, data []byte, places []place, text string) error {
	for _, r := range text {
		if r >= utf8.RuneSelf {
			return fileError(CodeEncoding, "%s is not UTF-8, so only ASCII text can be put into it, but the new text has %q; use a command for it", abs, r)
		}
	}
	for _, p := range places {
		if secondByte(data, p.from) {
			return fileError(CodeEncoding, "%s is not UTF-8, and at line %d the old text may begin inside of a character; give more of what is before it", abs, lineOf(data, p.from))
		}
	}
	return nil
}

// secondByte reports whether the byte at an offset would be the second of a character
// in one of the double-byte encodings (GBK, Big5, Shift JIS), where it may look like ASCII.
func secondByte(data []byte, at int) bool {
	i := bytes.LastIndexByte(data[:at], '\n') + 1
	for i < at {
		if data[i] > 0x80 {
			i++
		}
		i++
	}
	return i > at
}

// lineList names the lines of places, the first few of them.
func lineList(data []byte, places []place) string {
	var s []string
	for i, p := range places {
		if i == 10 {
			return strings.Join(s, ", ") + ", ..."
		}
		s = append(s, fmt.Sprint(lineOf(data, p.from)))
	}
	return strings.Join(s, ", ")
}

// notFound says what is in the file instead of the old text, as far as can be told.
func notFound(abs string, data []byte, old string) error {
	msg := fmt.Sprintf("the old text is not in %s", abs)
	if strings.Contains(old, replacement) {
		return fileError(CodeNoMatch, "%s: it has the %s that read shows for bytes that are not UTF-8; leave them out of it", msg, replacement)
	}
	lines := strings.Split(string(newLFView(data).text), "\n")
	want := strings.Split(strings.Trim(toLF(old), "\n"), "\n")
	first := -1
	for i := range lines {
		if strings.TrimSpace(lines[i]) != strings.TrimSpace(want[0]) || strings.TrimSpace(want[0]) == "" {
			continue
		}
		if first < 0 {
			first = i
		}
		if i+len(want) > len(lines) {
			break
		}
		same := true
		for j := range want {
			same = same && strings.TrimSpace(lines[i+j]) == strings.TrimSpace(want[j])
		}
		if same {
			there := tool.Bound([]byte(strings.Join(lines[i:i+len(want)], "\n")), tool.Limits{Bytes: 2 << 10}, nil)
			return fileError(CodeNoMatch, "%s; at line %d it is the same but for white space. There it is:\n%s", msg, i+1, there.Text)
		}
	}
	if first >= 0 {
		return fileError(CodeNoMatch, "%s; line %d is like its first line, but what follows is not. Read the file again", msg, first+1)
	}
	return fileError(CodeNoMatch, "%s; read the file again and copy the text from there", msg)
}
