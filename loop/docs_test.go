package loop_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
	"dshsh/runtime/modules"
)

var codeBlock = regexp.MustCompile("(?s)```(js|ts|lua)\n(.*?)```")

// TestDocsAndExamples loads every script in the documents and the examples, and takes a
// turn with a tool call under it.
func TestDocsAndExamples(t *testing.T) {
	blocks := map[string]string{}
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(docs, "../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			blocks[filepath.Base(path)+"-"+string(rune('a'+i))+"."+m[1]] = m[2]
		}
	}
	for _, pattern := range []string{"../examples/*.js", "../examples/*.lua", "../scripts/*.js", "../scripts/*.lua"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			blocks[filepath.Base(filepath.Dir(path))+"-"+filepath.Base(path)] = string(text)
		}
	}
	if len(blocks) < 10 {
		t.Errorf("only %d scripts found", len(blocks))
	}
	for name, code := range blocks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, modeltest.New(modeltest.Tool("c1", "bash", `{"text":"r"}`)).Otherwise(modeltest.Text("ok")), withTools(named{name: "bash"}, named{name: "write"}), withEngines,
				func(c *loop.Config) {
					c.Members, c.Modules = []*runtime.Member{modules.Shell()}, modules.New(modules.Config{Dir: t.TempDir()})
				})
			w.script(name, code)
			w.create().prompt("go")
			for _, f := range w.notes.failures {
				t.Error(f.Err)
			}
			if got := w.turns(); !strings.Contains(got, "turn/end 1 completed") {
				t.Error(got)
			}
			for _, d := range w.decisions() {
				for _, l := range d.Layers {
					// The arguments are not those of a real bash: a guard that reads them may fail,
					// which denies; anything else must not.
					if l.Outcome == "failed" && d.Event != "tools/pre-execute" {
						t.Errorf("%+v", d)
					}
				}
			}
		})
	}
}

func TestExampleGuardAsks(t *testing.T) {
	for _, file := range []string{"guard.js", "secrets.lua"} {
		code, err := os.ReadFile("../examples/" + file)
		if err != nil {
			t.Fatal(err)
		}
		tool, args, want := "bash", `{"command":"rm x"}`, "c1 error Error: removes files (nobody is there to approve it)"
		if file == "secrets.lua" {
			tool, args, want = "write", `{"path":"a/.env"}`, "c1 error Error: secrets stay as they are"
		}
		w := newWorld(t, modeltest.New(modeltest.Tool("c1", tool, args)).Otherwise(modeltest.Text("ok")), withTools(named{name: "bash"}, named{name: "write"}), withEngines)
		w.script(file, string(code))
		w.create().prompt("go")
		w.check(w.result(), want)
	}
}

func TestBundledPolicies(t *testing.T) {
	for file, want := range map[string]string{
		"read-only.js":         "c1 error Error: this session is read-only",
		"ask-before-shell.lua": "c1 error Error: runs: ls (nobody is there to approve it)",
	} {
		code, err := os.ReadFile("../scripts/" + file)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, modeltest.New(modeltest.Tool("c1", "bash", `{"command":"ls"}`)).Otherwise(modeltest.Text("ok")), withTools(named{name: "bash"}), withEngines)
		w.script(file, string(code))
		w.create().prompt("go")
		w.check(w.result(), want)
	}
}
