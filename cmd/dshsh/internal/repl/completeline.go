package repl

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
)

// completionTime is how long Tab waits for a script.
const completionTime = time.Second

// CompleteLine completes commands, script names, session ids, and what scripts say of
// their commands. It is an Editor's Complete.
func (l *Loop) CompleteLine(line string, pos int) []Candidate {
	line = line[:pos]
	if !strings.HasPrefix(line, "/") {
		return completeMention(l.shell.Dir(), line)
	}
	name, arg, hasArg := strings.Cut(line[1:], " ")
	if !hasArg {
		return l.completeCommands(name)
	}
	var words []string
	switch name {
	case "resume":
		infos, err := l.shell.Sessions()
		if err == nil {
			for _, in := range infos {
				words = append(words, in.ID)
			}
		}
	case "scripts":
		words = []string{"on ", "off ", "trust", "rollback"}
		if verb, _, ok := strings.Cut(arg, " "); ok {
			words = nil
			if verb != "on" && verb != "off" {
				break
			}
			for _, s := range l.shell.Scripts().Status(context.Background()) {
				words = append(words, verb+" "+s.File)
			}
		}
	case "queue":
		words = []string{"clear", "edit ", "mv ", "rm "}
	case "model":
		for _, m := range l.shell.Models() {
			route, _, _ := strings.Cut(m[0], "*")
			words = append(words, route)
		}
	case "agent":
		words = l.completeAgents(arg)
	default:
		return l.askCommand(name, arg)
	}
	var out []Candidate
	for _, w := range words {
		if strings.HasPrefix(w, arg) {
			out = append(out, Candidate{From: len(name) + 2, Text: w})
		}
	}
	return out
}

// askCommand has a script's command complete its arguments. What the script gives stands
// for all of them or for the last word. A failure completes nothing, and is shown.
func (l *Loop) askCommand(name, args string) (out []Candidate) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), completionTime, fmt.Errorf("no answer in %v", completionTime))
	defer cancel()
	h := l.shell.Host()
	var words []string
	var err error
	derr := h.Do(ctx, func() {
		if r := h.Current().Find(loop.OfferCommand, name, l.Agent()); r != nil {
			words, err = r.Spec.(*loop.Command).Complete(ctx, args)
		}
	})
	if err != nil && derr == nil {
		l.Say(render.Visible(fmt.Sprintf("/%s: completing: %v", name, err)))
	}
	from := len(name) + 2
	last := strings.LastIndexByte(args, ' ') + 1
	for _, w := range words {
		switch {
		case strings.HasPrefix(w, args):
			out = append(out, Candidate{From: from, Text: w})
		case strings.HasPrefix(w, args[last:]):
			out = append(out, Candidate{From: from + last, Text: w})
		}
		if len(out) == maxCompletions {
			break
		}
	}
	return out
}

// completeMention completes the path of a file that is named with @.
func completeMention(dir, line string) (out []Candidate) {
	from := strings.LastIndexByte(line, '@')
	if from < 0 || from > 0 && line[from-1] != ' ' && line[from-1] != '(' {
		return nil
	}
	typed := line[from+1:]
	typed, quoted := strings.CutPrefix(typed, `"`)
	if !quoted && strings.ContainsRune(typed, ' ') {
		return nil
	}
	folder, prefix := path.Split(filepath.ToSlash(typed))
	at := filepath.Join(dir, filepath.FromSlash(folder))
	if path.IsAbs(folder) {
		at = filepath.FromSlash(folder)
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, ".") && prefix == "" || strings.ContainsAny(name, "\"\n\r") {
			continue
		}
		st, err := os.Stat(filepath.Join(at, name))
		if err != nil || !st.IsDir() && !st.Mode().IsRegular() {
			continue
		}
		text, end := folder+name, " "
		if st.IsDir() {
			text, end = text+"/", ""
		}
		if quoted || strings.ContainsRune(text, ' ') {
			text = `"` + text
			if !st.IsDir() {
				text += `"`
			}
		}
		out = append(out, Candidate{From: from, Text: "@" + text + end, Label: render.Visible(folder + name)})
		if len(out) == maxCompletions {
			break
		}
	}
	return out
}

// maxCompletions is how many of a script's words are shown.
const maxCompletions = 200

func (l *Loop) completeCommands(prefix string) []Candidate {
	labels := map[string]string{}
	for _, c := range commands {
		labels[c.name] = c.help
	}
	h := l.shell.Host()
	_ = h.Do(context.Background(), func() {
		for _, r := range h.Current().Offers(loop.OfferCommand, l.Agent()) {
			labels[r.Name] = r.Spec.(*loop.Command).Description
		}
	})
	var names []string
	for n := range labels {
		if strings.HasPrefix(n, prefix) {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var out []Candidate
	for _, n := range slices.Compact(names) {
		out = append(out, Candidate{From: 0, Text: "/" + n + " ", Label: "/" + n + "  " + labels[n]})
	}
	return out
}
