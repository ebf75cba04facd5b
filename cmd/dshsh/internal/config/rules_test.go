package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"dshsh/loop/policy"
)

func TestRulesComeBackAsTheyWereSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "rules.toml")
	if rules, err := ReadRules(path); err != nil || len(rules) != 0 {
		t.Fatalf("without a file: %v %v", rules, err)
	}
	var want []policy.Rule
	for _, text := range []string{"git status *", `echo "a" 'b' \c`, "echo $'\\n\\t'", "echo 'ü 😀'"} {
		r := policy.Rule{Decision: policy.Allow, Tool: "bash", Command: text, Project: `/a "b" \c`}
		want = append(want, r)
		if err := AddRules(path, []policy.Rule{r, r}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadRules(path)
	if err != nil || !slices.Equal(slices.Compact(got), want) {
		t.Errorf("%v: %+v", err, got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

// TestRulesLeaveTheFileAsItWas: what a person wrote between the rules stays.
func TestRulesLeaveTheFileAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.toml")
	const first, second, third = "# mine\n[[rule]] # one\ndecision = 'deny'\ntool = \"bash\"\ncommand = \"rm\"\n\n", "# about two\n[[rule]]\ndecision='ask'\ntool='read'\n\n", "# about three\n[[rule]]\ndecision='allow'\ntool='ls'"
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write(first + second + third)
	r := policy.Rule{Decision: policy.Allow, Tool: "bash", Command: "ls"}
	if err := AddRules(path, []policy.Rule{r}); err != nil {
		t.Fatal(err)
	}
	if got, want := read(), first+second+third+"\n\n[[rule]]\ndecision = \"allow\"\ntool = \"bash\"\ncommand = \"ls\"\n"; got != want {
		t.Errorf("added:\n%s", got)
	}
	if err := RemoveRule(path, policy.Rule{Decision: policy.Ask, Tool: "read"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveRule(path, r); err != nil {
		t.Fatal(err)
	}
	if got, want := read(), first+"# about two\n"+third+"\n\n"; got != want {
		t.Errorf("removed:\n%s\nwant\n%s", got, want)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	// What cannot be read is not written.
	write("[[rule]]\ncomand = 'x'\n")
	if err := AddRules(path, []policy.Rule{r}); err == nil || !strings.Contains(err.Error(), `rules.toml:2: unknown key "comand" (did you mean "command"?)`) {
		t.Error(err)
	}
	if got := read(); got != "[[rule]]\ncomand = 'x'\n" {
		t.Errorf("it was written:\n%s", got)
	}
}

func TestRulesSayWhatIsWrongAndWhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.toml")
	for text, want := range map[string]string{
		"\n[[rule]]\ndecision = 'alow'\ntool = 'x'":               "rules.toml:2: decision: \"alow\"",
		"[[rule]]\ndecision = 'allow'":                            "rules.toml:1: tool is missing",
		"[[rule]]\ndecision = 'allow'\ntool = 3":                  "rules.toml:3: tool: want a text",
		"[[rule]]\ndecision = 'allow'\ntool = ''":                 "rules.toml:3: tool is empty",
		"[[rule]]\ndecision = 'allow\n":                           "rules.toml:2: ",
		"tool = 'x'":                                              "rules.toml:1: tool belongs below a [[rule]]",
		"[rules]\ntool = 'x'":                                     "rules.toml:1: unknown table rules",
		"[[rule]]\ntool='x'\n[rule.sub]\n":                        "rules.toml:3: ",
		"[[rule]]\ntool='x'\ndecision='allow'\ncommand='a | b'\n": "rules.toml:1: command: ",
		"[[rule]]\ntool='x'\ntool='y'\n":                          "rules.toml:",
		"rule = [{tool='x'}]\n":                                   "rules.toml:1: rule belongs",
		"\xff":                                                    "rules.toml",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := ReadRules(path)
		if err == nil || !strings.Contains(err.Error(), want) || len(rules) > 0 {
			t.Errorf("%q: %v %v, want %q", text, rules, err, want)
		}
	}
}

// TestRulesOfTwoShells: neither loses what the other saves.
func TestRulesOfTwoShells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.toml")
	var wg sync.WaitGroup
	const each = 10
	for shell := range 4 {
		wg.Go(func() {
			for i := range each {
				r := policy.Rule{Decision: policy.Allow, Tool: "bash", Command: fmt.Sprintf("echo %d %d", shell, i)}
				if err := AddRules(path, []policy.Rule{r}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rules, err := ReadRules(path); err != nil || len(rules) != 4*each {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}
