package repl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
)

// edit has the person change a file in the editor that $VISUAL or $EDITOR names, on the
// terminal.
func (e *Editor) edit(file string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} { // the last one counts
		if v := strings.TrimSpace(e.cfg.Getenv(name)); v != "" {
			editor = v
		}
	}
	if !e.person || e.tty == nil {
		return errors.New("an editor needs a terminal")
	}
	return e.Lend(func() error {
		c := exec.Command("sh", "-c", editor+` "$@"`, editor, file) // a command, as elsewhere
		if _, err := exec.LookPath("sh"); err != nil {
			c = exec.Command(editor, file)
		}
		c.Stdin, c.Stdout, c.Stderr = e.cfg.In, e.cfg.Out, e.cfg.Out
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w; $VISUAL or $EDITOR names the editor", editor, err)
		}
		return nil
	})
}

// compose has the person write text, which begins as given, in their editor, in a private
// file of that name.
func (e *Editor) compose(name, text string) (string, error) {
	dir, err := os.MkdirTemp("", "dshsh-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := e.edit(file); err != nil {
		return "", err
	}
	raw, err := os.ReadFile(file)
	return strings.TrimRight(strings.ToValidUTF8(string(raw), "\ufffd"), "\r\n"), err
}

// composeLine moves the line that is being edited into the person's editor, and back.
// Editor.mu is held when it is called; the rest happens on a goroutine of its own.
func (e *Editor) composeLine() {
	if e.cur.ask != nil {
		e.ring()
		return
	}
	before := e.base.buf
	text := e.pastes.expand(before.text)
	go func() {
		defer e.contain("the editor")
		after, err := e.compose("prompt.md", text)
		if err != nil {
			e.complain(err)
			return
		}
		e.mu.Lock()
		e.base.buf = buffer{text: e.pastes.runes(after)}
		e.base.buf.pos = len(e.base.buf.text)
		e.mu.Unlock()
		e.redraw()
	}()
}

// Prefill puts text in front of what has been typed.
func (e *Editor) Prefill(text string) {
	e.mu.Lock()
	line := e.pastes.runes(text)
	e.mu.Unlock()
	e.PutBack(Event{line: line})
}

// cmdEdit has a prompt written, or a script changed, in the person's editor.
func (l *Loop) cmdEdit(ctx context.Context, name string) {
	if name == "" {
		text, err := l.ed.compose("prompt.md", "")
		switch {
		case err != nil:
			l.Say(render.Visible("/edit: " + err.Error()))
		case strings.TrimSpace(text) != "":
			l.ed.Prefill(text)
		}
		return
	}
	if err := l.editScript(ctx, name); err != nil {
		l.Say(render.Visible("/edit: " + err.Error()))
	}
}

// editScript has a copy edited, which replaces the script when the editor ends: what comes
// into force is what the person wrote, whatever a tool does to the file meanwhile.
func (l *Loop) editScript(ctx context.Context, name string) error {
	path, err := l.shell.ScriptFile(ctx, name)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := l.ed.compose(filepath.Base(path), string(before))
	if err != nil {
		return err
	}
	if text != "" {
		text += "\n"
	}
	if text == string(before) {
		l.Say("not changed")
		return nil
	}
	now, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(now) != string(before) {
		aside := filepath.Join(os.TempDir(), filepath.Base(path)+".mine")
		if err := os.WriteFile(aside, []byte(text), 0o600); err != nil {
			return err
		}
		return fmt.Errorf("%s has changed meanwhile; your version is in %s", path, aside)
	}
	return l.shell.WriteScript(ctx, path, []byte(text))
}
