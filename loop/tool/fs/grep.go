package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// Bounds of grep.
const (
	defaultMatches = 200
	maxMatches     = 2000
	maxContext     = 20
)

// GrepArgs are the arguments of grep.
type GrepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty"`
	Glob       string `json:"glob,omitempty"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Context    int    `json:"context,omitempty"` // lines before and after each match
	Limit      int    `json:"limit,omitempty"`   // matching lines
	Files      bool   `json:"files,omitempty"`   // only the names of files that match
	Ignored    bool   `json:"ignored,omitempty"` // also what .gitignore leaves out
}

// GrepMatch is one line that matches.
type GrepMatch struct {
	Path string `json:"path"`           // as the model sees it, but not quoted
	Line int64  `json:"line,omitempty"` // from 1; 0 with Files
	Text string `json:"text,omitempty"` // of the line, cut around the match
}

// GrepValue is the Value of grep, as JSON. Its Meta is the same without the matches.
type GrepValue struct {
	Matches    []GrepMatch `json:"matches,omitempty"`
	Lines      int         `json:"lines"`     // that match, as far as was searched
	Files      int         `json:"files"`     // with such lines
	Truncated  bool        `json:"truncated"` // something was cut, or not searched
	OutputPath string      `json:"outputPath,omitempty"`
}

type grepper struct{ f *Files }

var (
	_ tool.ConcurrencySafer = grepper{}
	_ tool.Reader           = grepper{}
	_ tool.PathUser         = grepper{}
	_ tool.Timeouter        = grepper{}
)

// Grep returns the tool grep.
func (f *Files) Grep() tool.Tool { return grepper{f} }

func (grepper) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: "grep",
		Description: "Searches the lines of text files for a regular expression (RE2: no lookaround, no backreferences) and shows each as path:number:line, " +
			"context lines as path-number-line. Binary files, links and what .gitignore leaves out are not searched; hidden files are. " +
			"Long lines are cut around the match.",
		Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{`+
			`"pattern":{"type":"string","minLength":1},`+
			`"path":{"type":"string","description":"the folder or file to search; default the working folder"},`+
			`"glob":{"type":"string","description":"only files like this, such as *.go or src/**/*.ts"},`+
			`"ignoreCase":{"type":"boolean"},`+
			`"context":{"type":"integer","minimum":0,"maximum":%d,"description":"lines to show before and after each match"},`+
			`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"matching lines, or files, to show; default %d"},`+
			`"files":{"type":"boolean","description":"show only the names of the files that match"},`+
			`"ignored":{"type":"boolean","description":"also search what .gitignore leaves out"}}}`, maxContext, maxMatches, defaultMatches)),
	}
}

func (grepper) ConcurrencySafe(json.RawMessage) bool { return true }

func (grepper) ReadOnly(json.RawMessage) bool { return true }

func (grepper) Timeout(json.RawMessage) time.Duration { return searchLimit }

func (g grepper) Paths(args json.RawMessage) []tool.PathUse {
	var a GrepArgs
	if tool.DecodeArgs("grep", args, &a) != nil {
		return nil
	}
	return g.f.paths(cmp.Or(a.Path, "."), false)
}

// Execute searches.
func (g grepper) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a GrepArgs
	if err := tool.DecodeArgs("grep", args, &a); err != nil {
		return tool.Result{}, err
	}
	filter, err := newGlobFilter("grep", "glob", a.Glob)
	if err != nil {
		return tool.Result{}, err
	}
	expr := a.Pattern
	if a.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return tool.Result{}, tool.InvalidArgs("grep: argument \"pattern\": %v", err)
	}
	abs, real, st, err := g.f.folderOf(x, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	s := &search{a: a, re: re, out: x.Output(g.f.cfg.Limits), limit: min(cmp.Or(a.Limit, defaultMatches), maxMatches)}
	unread := 0
	if st.IsDir() {
		unread, err = g.folder(ctx, s, abs, real, filter)
	} else {
		err = g.single(ctx, s, abs, real)
	}
	done := s.out.Finish()
	late, err := ended(ctx, err)
	if err != nil {
		return tool.Result{}, fmt.Errorf("searching %s: %w", abs, err)
	}
	return s.result(done, late, unread)
}

// single searches one file, whatever .gitignore says of it.
func (g grepper) single(ctx context.Context, s *search, abs, real string) error {
	file, st, stop, err := open(ctx, abs, real)
	if err != nil {
		return err
	}
	defer stop()
	binary, err := s.file(ctx, g.f.relative(abs), file)
	if binary {
		return fileError(CodeEncoding, "%s is a binary file of %d bytes, or UTF-16, and is not searched", abs, st.Size())
	}
	return ignoreEnough(err)
}

// folder searches the files below a folder.
func (g grepper) folder(ctx context.Context, s *search, abs, real string, filter globFilter) (unread int, err error) {
	root, err := os.OpenRoot(real)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	failed := 0
	one := func(rel string) error {
		file, err := root.OpenFile(rel, os.O_RDONLY|openWithoutWaiting, 0)
		if err != nil {
			failed++
			return nil
		}
		defer file.Close()
		if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
			return nil
		}
		if _, err = s.file(ctx, g.f.relative(filepath.Join(abs, rel)), file); err != nil && err != errEnough && ctx.Err() == nil {
			failed++
			return nil
		}
		return err
	}
	if g.f.cfg.Ripgrep != "" {
		if files, ok := filesWithMatches(ctx, g.f.cfg.Ripgrep, real, s.re, s.a.Ignored); ok {
			for _, rel := range files {
				if !filter.matches(rel) || isLink(root, rel) {
					continue
				}
				if err := one(rel); err != nil {
					return failed, ignoreEnough(err)
				}
			}
			return failed, nil
		}
	}
	unread, err = walk(ctx, real, s.a.Ignored, func(rel string, d iofs.DirEntry) error {
		if !d.Type().IsRegular() || !filter.matches(rel) {
			return nil
		}
		return one(rel)
	})
	return unread + failed, err
}

func isLink(root *os.Root, rel string) bool {
	st, err := root.Lstat(rel)
	return err != nil || st.Mode()&iofs.ModeSymlink != 0
}

func ignoreEnough(err error) error {
	if err == errEnough {
		return nil
	}
	return err
}

func (s *search) result(done tool.Bounded, late bool, unread int) (tool.Result, error) {
	v := GrepValue{Matches: s.matches, Lines: s.lines, Files: s.files, OutputPath: done.Path,
		Truncated: s.full || s.cut || done.Truncated || late || unread > 0}
	var notes []string
	if s.lines == 0 {
		notes = append(notes, "nothing matches")
	}
	if s.full {
		what := "matching lines"
		if s.a.Files {
			what = "files"
		}
		notes = append(notes, fmt.Sprintf("the first %d %s; there may be more: narrow the pattern or the folder, or raise limit", s.limit, what))
	}
	if s.cut {
		notes = append(notes, fmt.Sprintf("lines of more than %d bytes were cut", matchLine))
	}
	notes = append(notes, searchNotes(late, unread)...)
	meta := v
	meta.Matches = nil
	return listResult("grep", done.Text, notes, v, meta)
}
