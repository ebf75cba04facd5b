package bindingstest

import (
	"os"
	"strings"
	"testing"

	"dshsh/runtime"
)

func TestParse(t *testing.T) {
	const text = `What it shows.
limits: sync=50 grace=20
differs: the other language has none
-- fire --
test/emit {}
wait
-- a.js --
ctx.on('x'); //! "no \\d"
-- a.lua --
ctx.on('x') --! "never seen here"
-- lib/x.js --

throw 1; //! "one"
-- trace --
both
-- trace.js --
mine
-- answers.lua --
its
`
	c := parse(t, []byte(text), "js")
	if c.differs == "" || c.limits != (runtime.Limits{Sync: 50, Grace: 20}) || len(c.scripts) != 1 || c.scripts[0].Name != "a.js" || len(c.files) != 1 {
		t.Errorf("got %+v", c)
	}
	if c.sections["trace"] != "mine\n" || len(c.sections) != 1 {
		t.Errorf("sections: %q", c.sections)
	}
	if len(c.marks) != 2 || c.marks[0].line != 1 || c.marks[0].rx.String() != `no \d` || c.marks[1].file != "lib/x.js" || c.marks[1].line != 2 {
		t.Errorf("marks: %+v", c.marks)
	}
	if strings.Join(c.fire, ",") != "test/emit {},wait" {
		t.Errorf("fire: %q", c.fire)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a.js:12: boom":                "a: boom",
		"guard.lua:3:7: x (b.js)":      "guard: x (b)",
		"lib/util.js:1: x; see a.json": "lib/util: x; see a.json",
		"project/a.js":                 "project/a",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		got, want string
		ok        bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"a\nb", "a", false}, {"a", "a\nb", false},
		{"a: 12 ms", `~ a: \d+ ms`, true}, {"a: 12 ms later", `~ a: \d+ ms`, false},
	} {
		if match(lines(c.got), lines(c.want)) != c.ok {
			t.Errorf("%q against %q: not %v", c.got, c.want, c.ok)
		}
	}
}

// TestCasesAreWhole: every case has both languages or says why not, and fires something
// or expects a load error.
func TestCasesAreWhole(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile("testdata/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		js, lua := parse(t, data, "js"), parse(t, data, "lua")
		if (len(js.scripts) == 0 || len(lua.scripts) == 0) && js.differs == "" {
			t.Errorf("%s: one language only, and no line `differs: reason`", e.Name())
		}
		if len(js.fire) == 0 && js.sections["load"] == "" && lua.sections["load"] == "" && js.sections["trace"] == "" && lua.sections["trace"] == "" {
			t.Errorf("%s: nothing happens in it", e.Name())
		}
	}
}
