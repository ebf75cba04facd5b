package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/policy"
	"dshsh/loop/tool"
	toolfs "dshsh/loop/tool/fs"
	"dshsh/runtime"
)

const (
	maxMentions     = 20        // files that one message adds
	maxMentionBytes = 256 << 10 // of all that it adds
)

// Attach implements repl.Shell.
func (p *prompt) Attach(ctx context.Context, a loop.Agent, text string) ([]model.Block, []string) {
	return p.attach(ctx, a, text)
}

// attach reads the files that a text names with @, as the tools read and ls would for the
// agent, and lists folders. What would be asked about or denied there is not added: the
// agent can still be told to read it. Off the thread.
func (s *sh) attach(ctx context.Context, a loop.Agent, text string) (blocks []model.Block, notes []string) {
	seen := map[string]bool{}
	left := maxMentionBytes
	for _, path := range mentions(text, s.exists) {
		if seen[path] {
			continue
		}
		seen[path] = true
		if len(blocks) == maxMentions {
			notes = append(notes, fmt.Sprintf("not added: more than %d files", maxMentions))
			break
		}
		what, content, err := s.mentioned(ctx, a, path)
		if err == nil && len(content) > left {
			err = fmt.Errorf("one message adds at most %d bytes", maxMentionBytes)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("@%s is not added: %v", path, err))
			continue
		}
		left -= len(content)
		blocks = append(blocks, model.Attached(what, content))
		notes = append(notes, "added "+what)
	}
	return blocks, notes
}

// exists says whether a path names something.
func (s *sh) exists(path string) bool {
	_, err := os.Stat(s.absolute(path))
	return err == nil
}

func (s *sh) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.dir, path)
}

// mentioned reads one file or lists one folder. what names it for the model and the person.
func (s *sh) mentioned(ctx context.Context, a loop.Agent, path string) (what, text string, err error) {
	t, name, kind := s.files.Read(), "read", "file"
	if st, err := os.Stat(s.absolute(path)); err == nil && st.IsDir() {
		t, name, kind = s.files.Ls(), "ls", "folder"
	}
	args, err := json.Marshal(toolfs.LsArgs{Path: path}) // the only argument of read that is wanted, too
	if err != nil {
		return "", "", err
	}
	call := policy.Call{Tool: t, Name: name, Args: args, AgentID: a.ID()}
	for _, judge := range []func(policy.Call) policy.Decision{s.Guard, s.Default} {
		switch d := judge(call); d.Kind {
		case policy.Deny:
			return "", "", fmt.Errorf("%s", d.Reason)
		case policy.Ask:
			return "", "", fmt.Errorf("it is outside of the working folder; ask the agent to read it")
		}
	}
	x := &tool.Exec{AgentID: a.ID(), FileObserved: func(seen tool.FileSeen) {
		_ = s.host.Do(context.Background(), func() {
			loop.FileObserved.Fire(s.host.Host, runtime.Target{Scope: a, AgentID: a.ID()},
				loop.FileSeenPayload{Path: seen.Path, Hash: seen.Hash, Call: loop.ToolCall{Agent: a, Name: name, Arguments: args}})
		})
	}}
	res, err := t.Execute(ctx, args, x)
	if err != nil {
		return "", "", err
	}
	text = model.Scrub(model.PlainText(res.Content))
	what = fmt.Sprintf("%s %s", kind, strings.NewReplacer("]", ")", "\n", " ").Replace(path))
	var v toolfs.ReadValue
	if kind == "file" && json.Unmarshal(res.Meta, &v) == nil {
		what += fmt.Sprintf(", %d lines", v.Lines)
		if v.Truncated {
			what += fmt.Sprintf(", shown to line %d", v.LastLine)
		}
	}
	return what, text, nil
}

// mentions are the paths that a text names with @ and that exist: @path, up to a blank or
// to punctuation behind it, and @"path with blanks". An @ within a word is none.
func mentions(text string, exists func(path string) bool) (paths []string) {
	for i := 0; i < len(text); {
		at := strings.IndexByte(text[i:], '@')
		if at < 0 {
			break
		}
		at += i
		i = at + 1
		if before, _ := utf8.DecodeLastRuneInString(text[:at]); at > 0 && !unicode.IsSpace(before) && !strings.ContainsRune("([{<,;:", before) {
			continue
		}
		rest := text[i:]
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			path, _, ok := strings.Cut(rest[1:], rest[:1])
			if ok && path != "" && !strings.Contains(path, "\n") && exists(path) {
				paths = append(paths, path)
				i += len(path) + 2
			}
			continue
		}
		end := strings.IndexFunc(rest, unicode.IsSpace)
		if end < 0 {
			end = len(rest)
		}
		for path := rest[:end]; path != ""; {
			if exists(path) {
				paths = append(paths, path)
				i += len(path)
				break
			}
			shorter := strings.TrimRight(path, ".,;:!?)]}>\"'`")
			if shorter == path {
				break
			}
			path = shorter
		}
	}
	return paths
}
