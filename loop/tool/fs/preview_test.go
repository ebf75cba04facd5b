package fs

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"dshsh/loop/tool"
)

// TestPreviewShowsWhatWouldChange: and changes nothing, also not what counts as seen.
func TestPreviewShowsWhatWouldChange(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\ntwo\n")
	f := New(Config{Dir: e.dir})
	preview := func(tl tool.Tool, args any) (string, error) {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return tl.(tool.Previewer).Preview(context.Background(), raw, &tool.Exec{AgentID: "a"})
	}
	for name, c := range map[string]struct {
		tool tool.Tool
		args any
		diff string
	}{
		"write over": {f.Write(), WriteArgs{Path: "f", Content: "one\n2\n"}, "-two\n+2\n"},
		"write new":  {f.Write(), WriteArgs{Path: "sub/g", Content: "x\n"}, "--- /dev/null\n"},
		"edit":       {f.Edit(), EditArgs{Path: "f", Old: "two", New: "three"}, "-two\n+three\n"},
	} {
		if diff, err := preview(c.tool, c.args); err != nil || !strings.Contains(diff, c.diff) {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	if diff, err := preview(f.Write(), WriteArgs{Path: "f", Content: "one\ntwo\n"}); diff != "" || err != nil {
		t.Errorf("the same content: %q %v", diff, err)
	}
	if _, err := preview(f.Edit(), EditArgs{Path: "f", Old: "no such", New: "x"}); err == nil || !strings.Contains(err.Error(), "is not in") {
		t.Errorf("an edit that would fail: %v", err)
	}
	e.has("f", "one\ntwo\n")
	if _, err := os.Stat(e.path("sub")); err == nil {
		t.Error("a folder was made")
	}
	if len(f.seen) > 0 {
		t.Errorf("it counts as seen: %v", f.seen)
	}
}
