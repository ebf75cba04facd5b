package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"dshsh/session"
)

// scrub writes records one a line, without what differs from run to run. Streamed chunks
// are left out: the messages hold what they amount to.
func scrub(recs []session.Record, work string) (string, error) {
	var b strings.Builder
	for _, r := range recs {
		if r.Type == "assistant/chunk" {
			continue
		}
		var data any
		if err := json.Unmarshal(r.Data, &data); err != nil {
			return "", err
		}
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(scrubbed(data)); err != nil {
			return "", err
		}
		text := durations.ReplaceAllString(strings.ReplaceAll(line.String(), work, "$WORK"), "after N")
		fmt.Fprintf(&b, "%s %s", r.Type, text)
	}
	return b.String(), nil
}

var durations = regexp.MustCompile(`after [0-9.]+m?s`)

// scrubbed drops ids, durations and hashes, and of a request's header all but the names.
func scrubbed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = scrubbed(v[i])
		}
	case map[string]any:
		made := v["role"] != nil || v["toolName"] != nil || v["outcome"] != nil // then the loop made up its id
		for key, val := range v {
			switch {
			case key == "durationMs" || key == "ms" || key == "hash" || key == "usage" || key == "id" && made:
				delete(v, key)
			case key == "system":
				v[key] = "..."
			case key == "tools":
				v[key] = toolNames(val)
			default:
				v[key] = scrubbed(val)
			}
		}
	}
	return v
}

func toolNames(v any) []string {
	var names []string
	list, _ := v.([]any)
	for _, t := range list {
		if t, ok := t.(map[string]any); ok {
			names = append(names, fmt.Sprint(t["name"]))
		}
	}
	return names
}

func cmdLogcmp(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "logcmp FILE")
	got, err := scrub(records(ts), ts.MkAbs("."))
	ts.Check(err)
	want := ts.ReadFile(args[0])
	if got == want {
		return
	}
	if *update {
		ts.Check(rewrite(filepath.Join("testdata", "script", ts.Name()+".txtar"), args[0], got))
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		w, g := "", ""
		if i < len(a) {
			w = a[i]
		}
		if i < len(b) {
			g = b[i]
		}
		if w != g {
			ts.Fatalf("the log differs from %s in line %d (-update takes it):\n want %s\n got  %s", args[0], i+1, w, g)
		}
	}
}

// rewrite replaces one file of a script.
func rewrite(script, name, text string) error {
	ar, err := txtar.ParseFile(script)
	if err != nil {
		return err
	}
	for i := range ar.Files {
		if ar.Files[i].Name == name {
			ar.Files[i].Data = []byte(text)
			return os.WriteFile(script, txtar.Format(ar), 0o644)
		}
	}
	return fmt.Errorf("%s has no file %s", script, name)
}
