package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	toolfs "dshsh/loop/tool/fs"
)

const (
	contextFile     = "AGENTS.md"
	maxContextFile  = 32 << 10 // bytes that one of them adds to the prompt
	maxContextFiles = 64 << 10 // bytes that all of them add
)

// sections is the standing part of the system prompt: as of the start, so that what the
// service has cached of it holds for the session.
func (s *sh) sections() []loop.PromptSection {
	root := cmp.Or(s.above(".git"), s.dir)
	out := []loop.PromptSection{
		{Name: "persona", Text: "You are an agent that works in a person's folder with the tools you are given. " +
			"Be exact and brief. Look before you change something, and say what you did. " +
			"Tool calls can be denied by policies: a denial says why; do not try to get around it."},
		{Name: "environment", Literal: true, Text: s.environment(root)},
	}
	left := maxContextFiles
	if f, ok := s.contextFile(s.cfg.Paths.Config, "", &left); ok {
		out = append(out, f)
	}
	for _, dir := range foldersBetween(root, s.dir) {
		if f, ok := s.contextFile(dir, root, &left); ok {
			out = append(out, f)
		}
	}
	return out
}

// environment is what the model is told of where it works.
func (s *sh) environment(root string) string {
	text := fmt.Sprintf("Working folder: %s\nSystem: %s/%s\nDate at the start: %s", s.dir, goruntime.GOOS, goruntime.GOARCH, s.e.Now().Format("2006-01-02, Monday"))
	if branch := gitBranch(root); branch != "" {
		text += "\nGit branch at the start: " + branch
	}
	return text
}

// foldersBetween are the folders from root down to dir, both included.
func foldersBetween(root, dir string) []string {
	out := []string{dir}
	for dir != root && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// gitBranch is the branch that is checked out in a folder, or the beginning of the commit;
// "" where that cannot be told. No program is run for it.
func gitBranch(root string) string {
	dir := filepath.Join(root, ".git")
	if st, err := os.Stat(dir); err != nil {
		return ""
	} else if !st.IsDir() { // of a linked worktree
		raw, _, err := toolfs.ReadHead(dir, 4<<10)
		to, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), "gitdir: ")
		if err != nil || !ok {
			return ""
		}
		if dir = to; !filepath.IsAbs(dir) {
			dir = filepath.Join(root, dir)
		}
	}
	raw, _, err := toolfs.ReadHead(filepath.Join(dir, "HEAD"), 4<<10)
	if err != nil {
		return ""
	}
	head := strings.TrimSpace(string(raw))
	if branch, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok {
		return branch
	}
	return fmt.Sprintf("none, at commit %.12s", head)
}

// contextFile reads the AGENTS.md of a folder into a section, as far as there is room for
// it; what is left out is said, to the model and to the person. A link must stay in root
// ("" is anywhere).
func (s *sh) contextFile(dir, root string, left *int) (sec loop.PromptSection, ok bool) {
	path, real, err := toolfs.Resolve(dir, contextFile)
	if _, serr := os.Lstat(path); errors.Is(serr, fs.ErrNotExist) {
		return sec, false
	}
	if err == nil && root != "" {
		_, realRoot, rerr := toolfs.Resolve(root, ".")
		if rel, e := filepath.Rel(realRoot, real); rerr == nil && (e != nil || !filepath.IsLocal(rel)) {
			err = fmt.Errorf("it is a link out of the project, to %s", real)
		}
	}
	most := min(maxContextFile, *left)
	var raw []byte
	var size int64
	if err == nil {
		raw, size, err = toolfs.ReadHead(real, most)
	}
	if err != nil {
		s.say(render.Visible(fmt.Sprintf("%s is not used: %v", path, err)))
		return sec, false
	}
	*left -= len(raw)
	text := strings.TrimSpace(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if cut := size - int64(len(raw)); cut > 0 {
		s.say(render.Visible(fmt.Sprintf("%s is used in part: %d of its %d bytes are left out (at most %d of one file, %d of all)", path, cut, size, maxContextFile, maxContextFiles)))
		text += fmt.Sprintf("\n[%d more bytes of this file are left out]", cut)
	}
	if text == "" {
		return sec, false
	}
	return loop.PromptSection{Name: path, Literal: true, Text: "The person's instructions in " + path + ":\n\n" + text}, true
}
