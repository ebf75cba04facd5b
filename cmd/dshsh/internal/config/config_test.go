package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md")

func TestReferenceIsFresh(t *testing.T) {
	path := filepath.FromSlash("../../../../docs/config.md")
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != Reference() {
		t.Errorf("docs/config.md is not what the schema says (%v): go test ./cmd/dshsh/internal/config -update", err)
	}
}

// home is a place with files: config.toml is the user's, project.toml the project's.
func home(t *testing.T, user, project string, env map[string]string) Input {
	t.Helper()
	dir := t.TempDir()
	in := Input{Getenv: func(name string) string {
		if name == "DSHSH_HOME" {
			return dir
		}
		return env[name]
	}}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if user != "" {
		write("config.toml", user)
	}
	if project != "" {
		in.Project = write("project.toml", project)
	}
	return in
}

func TestLayersOfTheConfiguration(t *testing.T) {
	in := home(t, "provider = \"openai\"\nmodel = \"a\"\nmax-steps = 5\npolicies = ['one']\nbell = true\n[openai]\nkey = \"k\"\nbase-url = 'http://u/v1'\n[anthropic]\nkey = 'x'\n",
		"model = 'b'\nmax-steps = 6\nconfine = true\npolicies = ['two']\n", map[string]string{"OPENAI_BASE_URL": "http://e/v1"})
	in.Flags = map[string]any{"max-steps": 7}
	c, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if c.Provider != "openai" || c.Model != "b" || c.MaxSteps != 7 || !c.Confine || !c.Bell || c.Approve != "ask" || c.MaxRetries != -1 || c.Routed || strings.Join(c.Policies, " ") != "one two" {
		t.Errorf("%+v", c)
	}
	if len(c.Services) != 2 || c.Services[0].BaseURL != "http://e/v1" || c.Services[0].Key != "k" {
		t.Errorf("%+v", c.Services)
	}
	origin := map[string]string{"model": "project.toml:1", "max-steps": "--max-steps", "openai.base-url": "$OPENAI_BASE_URL", "openai.key": "config.toml:7", "approve": "built in", "policies": "project.toml:4"}
	for _, s := range c.Settings() {
		if want := origin[s.Key.Name]; !strings.HasSuffix(s.Origin, want) {
			t.Errorf("%s from %s, want %s", s.Key.Name, s.Origin, want)
		}
		if s.Key.Secret && strings.ContainsAny(s.String(), "kx") {
			t.Errorf("%s is shown: %s", s.Key.Name, s)
		}
	}
	// A model is that of a provider: a stronger place that names another one has none.
	in.Flags = map[string]any{"provider": "anthropic"}
	if c, err = Load(in); err != nil || c.Model != defaultModels["anthropic"] || !c.Routed {
		t.Errorf("%v %+v", err, c)
	}
	in.Flags, in.BaseURL = map[string]any{"model": "m"}, "http://other/v1"
	if c, err = Load(in); err != nil || c.Provider != "openai" || c.Model != "m" || c.Services[0].BaseURL != in.BaseURL {
		t.Errorf("%v %+v", err, c)
	}
}

func TestWhatTheConfigurationMayNotSay(t *testing.T) {
	for user, want := range map[string]string{
		"modle = 'x'":                      `config.toml:1: unknown key "modle" (did you mean "model"?)`,
		"\n[opnai]\nkey = 'x'":             `config.toml:2: unknown table [opnai] (did you mean "openai"?)`,
		"[openai]\nbase_url = 'http://x/'": `config.toml:2: unknown key "openai.base_url" (did you mean "openai.base-url"?)`,
		"[openai]\nbase-url = 'x'":         `config.toml:2: openai.base-url: want an address`,
		"approve = 'al'":                   `config.toml:1: approve: there is no "al" (did you mean "all"?)`,
		"max-steps = -1":                   `config.toml:1: max-steps: want a number from 0 on`,
		"max-steps = '3'":                  `config.toml:1: max-steps: want a number`,
		"policies = [1]":                   `config.toml:1: policies: want a list of texts`,
		"bell = 'yes'":                     `config.toml:1: bell: want true or false`,
		"a = 1\na = 2":                     `config.toml:2: `,
		"x =":                              `config.toml:1: `,
		"openai.kee = 'x'":                 `config.toml:1: unknown key "openai.kee"`,
		"provider = 'openai'\nmodel = 'x'": `provider openai is not configured`,
	} {
		if c, err := Load(home(t, user, "", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, want %q", user, c, err, want)
		}
	}
	for _, k := range keys {
		if k.Project {
			continue
		}
		value := map[string]string{kindText: "'ask'", kindBool: "true", kindNumber: "1", kindList: "[]"}[k.Kind]
		if c, err := Load(home(t, "", k.Name+" = "+value, nil)); err == nil || !strings.Contains(err.Error(), "project.toml:1: a project may not set "+k.Name) {
			t.Errorf("a project sets %s: %+v %v", k.Name, c, err)
		}
	}
	if _, err := Load(home(t, "confine = true", "confine = false", nil)); err == nil || !strings.Contains(err.Error(), "true only") {
		t.Error(err)
	}
}
