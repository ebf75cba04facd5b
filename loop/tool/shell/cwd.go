package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// dirVariable names, in the environment of a command, the file that its shell leaves the
// folder in where it ended.
const dirVariable = "DSHSH_SHELL_CWD"

// rememberDir is put before a command, in the same line so that the lines of errors
// stay right. A command that sets a trap of its own for EXIT, or is replaced by exec, is not
// remembered: the next one begins where it did.
const rememberDir = `trap '{ set +x; } 2>/dev/null; command pwd -P 2>/dev/null >|"$` + dirVariable + `"' EXIT; `

// Dir is the folder that an agent's next command starts in.
func (b *Bash) Dir(agentID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir, ok := b.dirs[agentID]; ok {
		return dir
	}
	return b.cfg.Dir
}

// SetDir says where an agent's next command starts, as when its session is resumed. A folder that is
// gone, or outside of the working folder, is not taken.
func (b *Bash) SetDir(agentID, dir string) {
	if inside, err := b.inside(dir); err == nil && inside {
		b.setDir(agentID, dir)
	}
}

// Forget drops what is remembered of an agent that is no more.
func (b *Bash) Forget(agentID string) { b.setDir(agentID, b.cfg.Dir) }

func (b *Bash) setDir(agentID, dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir == b.cfg.Dir {
		delete(b.dirs, agentID)
		return
	}
	b.dirs[agentID] = dir
}

// inside reports whether a path is a folder at or below the working folder.
func (b *Bash) inside(dir string) (bool, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	if !st.IsDir() || !filepath.IsAbs(dir) {
		return false, nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	work, err := filepath.EvalSymlinks(b.cfg.Dir)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(work, real)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), err
}

// startDir is where an agent's command starts, and what there is to say about it.
func (b *Bash) startDir(agentID string) (dir, note string) {
	dir = b.Dir(agentID)
	if inside, err := b.inside(dir); dir == b.cfg.Dir || err == nil && inside {
		return dir, ""
	}
	b.Forget(agentID)
	return b.cfg.Dir, fmt.Sprintf("%s is gone, so the command started in %s", dir, b.cfg.Dir)
}

// follow notes where a command's shell ended, for the agent's next one, and says what changed.
func (b *Bash) follow(agentID, began, ended string) (note string) {
	if ended == "" || ended == began {
		return ""
	}
	if inside, err := b.inside(ended); err != nil || !inside {
		return fmt.Sprintf("the command ended in %s, outside of the working folder; the next one starts in %s again", ended, began)
	}
	if same, err := filepath.EvalSymlinks(b.cfg.Dir); err == nil && same == ended {
		ended = b.cfg.Dir
	}
	b.setDir(agentID, ended)
	if ended == began {
		return ""
	}
	return "the next command starts in " + ended
}

// dirFile is a file for a command's shell to leave its folder in, or "" where there can be
// none. It is not there yet.
func (b *Bash) dirFile(call string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.temp == "" && !b.closed {
		b.temp, _ = os.MkdirTemp("", "dshsh-shell-") // without it folders are not remembered
	}
	if b.temp == "" {
		return ""
	}
	return filepath.Join(b.temp, call)
}

// maxDir is more than any system takes as a path.
const maxDir = 64 << 10

// takeDir reads and removes such a file. "" is that nothing is known.
func takeDir(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, maxDir))
	if err = errors.Join(err, f.Close(), os.Remove(path)); err != nil {
		return ""
	}
	dir, whole := strings.CutSuffix(string(data), "\n")
	if !whole || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}
