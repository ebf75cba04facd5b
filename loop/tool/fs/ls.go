package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// maxEntries is how many entries ls and glob show at most.
const maxEntries = 1000

// LsArgs are the arguments of ls.
type LsArgs struct {
	Path string `json:"path,omitempty"`
}

// Entry is one entry of a folder.
type Entry struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // file, folder, link, other
	Size   int64  `json:"size"` // in bytes, of a file
	Target string `json:"target,omitempty"`
}

// LsValue is the Value of ls, as JSON. Its Meta is the same without the entries.
type LsValue struct {
	Path      string  `json:"path"`              // absolute
	Entries   []Entry `json:"entries,omitempty"` // by name
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated"` // there are more than the entries shown
}

type lister struct{ f *Files }

var (
	_ tool.ConcurrencySafer = lister{}
	_ tool.Reader           = lister{}
	_ tool.PathUser         = lister{}
)

// Ls returns the tool ls.
func (f *Files) Ls() tool.Tool { return lister{f} }

func (lister) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "ls",
		Description: fmt.Sprintf("Lists a folder, hidden entries too: the size in bytes and the name of each; folders end in /, links show where they lead. "+
			"At most %d entries.", maxEntries),
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` +
			`"path":{"type":"string","description":"absolute, or relative to the working folder, which is the default"}}}`),
	}
}

func (lister) ConcurrencySafe(json.RawMessage) bool { return true }

func (lister) ReadOnly(json.RawMessage) bool { return true }

func (l lister) Paths(args json.RawMessage) []tool.PathUse {
	var a LsArgs
	if tool.DecodeArgs("ls", args, &a) != nil {
		return nil
	}
	return l.f.paths(cmp.Or(a.Path, "."), false)
}

// Execute lists the folder.
func (l lister) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a LsArgs
	if err := tool.DecodeArgs("ls", args, &a); err != nil {
		return tool.Result{}, err
	}
	abs, real, st, err := l.f.folderOf(x, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	v := LsValue{Path: abs}
	if !st.IsDir() {
		v.Entries, v.Total = []Entry{entryOf(filepath.Dir(real), iofs.FileInfoToDirEntry(st))}, 1
		return v.result(x, l.f.cfg.Limits)
	}
	names, err := readNames(ctx, real)
	if ctx.Err() != nil {
		return tool.Result{}, tool.Aborted()
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("listing %s: %w", abs, err)
	}
	v.Total = len(names)
	v.Truncated = v.Total > maxEntries
	for _, d := range names[:min(v.Total, maxEntries)] {
		v.Entries = append(v.Entries, entryOf(real, d))
	}
	return v.result(x, l.f.cfg.Limits)
}

// readNames reads a folder, which is closed when ctx ends.
func readNames(ctx context.Context, real string) ([]iofs.DirEntry, error) {
	dir, err := os.Open(real)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var all []iofs.DirEntry
	for ctx.Err() == nil {
		some, err := dir.ReadDir(10_000)
		all = append(all, some...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b iofs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, nil
}

func entryOf(dir string, d iofs.DirEntry) Entry {
	e := Entry{Name: d.Name(), Kind: "other"}
	switch {
	case d.IsDir():
		e.Kind = "folder"
	case d.Type()&iofs.ModeSymlink != 0:
		e.Kind = "link"
		e.Target, _ = os.Readlink(filepath.Join(dir, d.Name()))
	case d.Type().IsRegular():
		e.Kind = "file"
		if st, err := d.Info(); err == nil {
			e.Size = st.Size()
		}
	}
	return e
}

func (v LsValue) result(x *tool.Exec, limits tool.Limits) (tool.Result, error) {
	out := x.Output(limits)
	for _, e := range v.Entries {
		size, name := "-", shownName(e.Name)
		switch e.Kind {
		case "file":
			size = fmt.Sprint(e.Size)
		case "folder":
			name += "/"
		case "link":
			name += " -> " + shownName(e.Target)
		case "other":
			name += " (no ordinary file)"
		}
		fmt.Fprintf(out, "%10s  %s\n", size, name)
	}
	var notes []string
	if v.Total == 0 {
		notes = append(notes, "the folder is empty")
	}
	if v.Truncated {
		notes = append(notes, fmt.Sprintf("%d of %d entries; use glob for those with certain names", len(v.Entries), v.Total))
	}
	done := out.Finish()
	v.Truncated = v.Truncated || done.Truncated
	meta := v
	meta.Entries = nil
	return listResult("ls", done.Text, notes, v, meta)
}

// listResult puts a result together of its text, notes for the model, value and meta.
func listResult(name, text string, notes []string, value, meta any) (tool.Result, error) {
	if len(notes) > 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "[" + strings.Join(notes, "]\n[") + "]"
	}
	res := tool.TextResult(strings.TrimSuffix(model.Scrub(text), "\n"))
	var err error
	if res.Value, err = json.Marshal(value); err != nil {
		return res, fmt.Errorf("%s: encoding the result: %w", name, err)
	}
	if res.Meta, err = json.Marshal(meta); err != nil {
		return res, fmt.Errorf("%s: encoding the result: %w", name, err)
	}
	return res, nil
}
