package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// searchLimit is how long glob and grep search before they answer with what they have.
const searchLimit = time.Minute

// GlobArgs are the arguments of glob.
type GlobArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
	Ignored bool   `json:"ignored,omitempty"` // also what .gitignore leaves out
}

// GlobValue is the Value of glob, as JSON. Its Meta is the same without the paths.
type GlobValue struct {
	Paths     []string `json:"paths,omitempty"` // as the model sees them, but not quoted; by name
	Total     int      `json:"total"`           // how many there are, as far as was searched
	Truncated bool     `json:"truncated"`       // there are, or may be, more than the paths shown
}

type globber struct{ f *Files }

var (
	_ tool.ConcurrencySafer = globber{}
	_ tool.Reader           = globber{}
	_ tool.PathUser         = globber{}
	_ tool.Timeouter        = globber{}
)

// Glob returns the tool glob.
func (f *Files) Glob() tool.Tool { return globber{f} }

func (globber) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "glob",
		Description: fmt.Sprintf("Finds files and folders by name: * and ? within a name, ** for any folders, [a-z], {a,b}. A pattern without / is looked for at any depth. "+
			"What .gitignore leaves out is not shown, nor what links lead to. Sorted; folders end in /; at most %d.", maxEntries),
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{` +
			`"pattern":{"type":"string","minLength":1,"description":"such as *.go or src/**/*_test.{js,ts}"},` +
			`"path":{"type":"string","description":"the folder to look in; default the working folder"},` +
			`"ignored":{"type":"boolean","description":"also show what .gitignore leaves out"}}}`),
	}
}

func (globber) ConcurrencySafe(json.RawMessage) bool { return true }

func (globber) ReadOnly(json.RawMessage) bool { return true }

func (globber) Timeout(json.RawMessage) time.Duration { return searchLimit }

func (g globber) Paths(args json.RawMessage) []tool.PathUse {
	var a GlobArgs
	if tool.DecodeArgs("glob", args, &a) != nil {
		return nil
	}
	return g.f.paths(cmp.Or(a.Path, "."), false)
}

// Execute searches the folder.
func (g globber) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a GlobArgs
	if err := tool.DecodeArgs("glob", args, &a); err != nil {
		return tool.Result{}, err
	}
	filter, err := newGlobFilter("glob", "pattern", a.Pattern)
	if err != nil {
		return tool.Result{}, err
	}
	abs, real, st, err := g.f.folderOf(x, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if !st.IsDir() {
		return tool.Result{}, fileError(CodeNotFolder, "%s is no folder", abs)
	}
	var v GlobValue
	out := x.Output(g.f.cfg.Limits)
	unread, err := walk(ctx, real, a.Ignored, func(rel string, d iofs.DirEntry) error {
		if !filter.matches(rel) {
			return nil
		}
		if v.Total++; v.Total > maxEntries {
			return nil // only counted
		}
		path := g.f.relative(filepath.Join(abs, rel))
		v.Paths = append(v.Paths, path)
		mark := ""
		if d.IsDir() {
			mark = "/"
		}
		fmt.Fprintf(out, "%s%s\n", shownName(path), mark)
		return nil
	})
	done := out.Finish()
	late, err := ended(ctx, err)
	if err != nil {
		return tool.Result{}, fmt.Errorf("searching %s: %w", abs, err)
	}
	var notes []string
	if v.Total == 0 {
		notes = append(notes, "nothing matches")
	}
	if v.Total > maxEntries {
		notes = append(notes, fmt.Sprintf("the first %d of %d; narrow the pattern or the folder", maxEntries, v.Total))
	}
	notes = append(notes, searchNotes(late, unread)...)
	v.Truncated = v.Total > maxEntries || done.Truncated || late || unread > 0
	meta := v
	meta.Paths = nil
	return listResult("glob", done.Text, notes, v, meta)
}

// searchNotes says what of a search was left out.
func searchNotes(late bool, unread int) (notes []string) {
	if late {
		notes = append(notes, fmt.Sprintf("stopped after %v, before everything was searched; narrow the folder", searchLimit))
	}
	if unread > 0 {
		notes = append(notes, fmt.Sprintf("%d files or folders could not be read", unread))
	}
	return notes
}
