// Package config turns the environment and the flags into one checked value. It reads no
// file yet and knows no other package of the program.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Config is what a shell is started with. Immutable once made.
type Config struct {
	Paths Paths
	// Provider and Model are the route of new sessions.
	Provider, Model string
	// Routed says that flags named the route: a resumed session then switches to it.
	Routed    bool
	Services  []Service
	NoKey     bool // no provider is configured: the offline one is used
	Approve   string
	MaxSteps  int
	MaxForced int // continuations in a row that scripts may force; 0 = the default
}

// Paths are the places of the user's files. All absolute.
type Paths struct {
	Config   string // models.json, rules.toml and scripts/
	Rules    string // rules.toml: what was allowed for good, see ReadRules
	Models   string // models.json: what the user knows of models, see model.Models.With
	Scripts  string
	Sessions string
	State    string
	History  string
}

// Service is a model service that is configured.
type Service struct {
	Name    string // openai, deepseek, anthropic
	BaseURL string // "" = the service's own
	Key     string
	KeyHint string // where the key is set
}

// Flags are what the command line says.
type Flags struct {
	Provider, Model, BaseURL string
	Approve                  string
	MaxSteps, MaxForced      int
}

// defaultModels are used where a provider is chosen without a model.
var defaultModels = map[string]string{
	"openai": "gpt-5.2", "deepseek": "deepseek-flash", "anthropic": "claude-sonnet-5-5", "offline": "offline",
}

// Keys is how a message tells what configures a provider.
const Keys = "DEEPSEEK_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"

// Load checks and joins environment and flags.
func Load(getenv func(string) string, f Flags) (*Config, error) {
	paths, err := findPaths(getenv)
	if err != nil {
		return nil, err
	}
	c := &Config{Paths: paths, Approve: f.Approve, MaxSteps: f.MaxSteps, MaxForced: f.MaxForced}
	if f.MaxSteps < 0 || f.MaxForced < 0 {
		return nil, errors.New("--max-steps and --max-continuations take a positive number")
	}
	for _, s := range []Service{
		{Name: "deepseek", BaseURL: getenv("DEEPSEEK_BASE_URL"), Key: getenv("DEEPSEEK_API_KEY"), KeyHint: "DEEPSEEK_API_KEY"},
		{Name: "openai", BaseURL: getenv("OPENAI_BASE_URL"), Key: getenv("OPENAI_API_KEY"), KeyHint: "OPENAI_API_KEY"},
		{Name: "anthropic", BaseURL: getenv("ANTHROPIC_BASE_URL"), Key: getenv("ANTHROPIC_API_KEY"), KeyHint: "ANTHROPIC_API_KEY"},
	} {
		if f.BaseURL != "" && s.Name == serviceOf(f) {
			s.BaseURL = f.BaseURL
		}
		if s.Key != "" || s.BaseURL != "" {
			c.Services = append(c.Services, s)
		}
	}
	c.Provider, c.Model = f.Provider, f.Model
	c.Routed = f.Provider != "" || f.Model != "" || f.BaseURL != ""
	if c.Provider == "" {
		if f.BaseURL != "" {
			c.Provider = serviceOf(f)
		} else if len(c.Services) > 0 {
			c.Provider = c.Services[0].Name
		} else if f.Model != "" {
			return nil, fmt.Errorf("--model %s: no provider is configured: set %s, or pass --base-url for a server without keys", f.Model, Keys)
		} else {
			c.Provider, c.NoKey = "offline", true
		}
	}
	if f.BaseURL != "" {
		if u, err := url.Parse(f.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("--base-url: want an address such as http://localhost:11434/v1")
		}
		if f.Model == "" {
			return nil, fmt.Errorf("--base-url %s: name the model that it is to answer with: --model NAME", f.BaseURL)
		}
	}
	if err := c.checkProvider(); err != nil {
		return nil, err
	}
	if c.Model == "" {
		c.Model = defaultModels[c.Provider]
	}
	return c, nil
}

// serviceOf is the service that --base-url speaks of.
func serviceOf(f Flags) string {
	if f.Provider != "" {
		return f.Provider
	}
	return "openai"
}

func (c *Config) checkProvider() error {
	if c.Provider == "offline" {
		return nil
	}
	known := []string{"offline"}
	for _, s := range c.Services {
		if s.Name == c.Provider {
			return nil
		}
		known = append(known, s.Name)
	}
	if _, ok := defaultModels[c.Provider]; ok {
		hint := strings.ToUpper(c.Provider)
		return fmt.Errorf("provider %s is not configured: set %s_API_KEY, or --base-url for a server without keys", c.Provider, hint)
	}
	return fmt.Errorf("unknown provider %q (there are openai, deepseek, anthropic and offline; configured: %s)", c.Provider, strings.Join(known, ", "))
}

// findPaths follows DSHSH_HOME, else the XDG folders.
func findPaths(getenv func(string) string) (Paths, error) {
	if home := getenv("DSHSH_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return Paths{}, fmt.Errorf("DSHSH_HOME: %w", err)
		}
		return Paths{Config: abs, Rules: filepath.Join(abs, "rules.toml"), Models: filepath.Join(abs, "models.json"), Scripts: filepath.Join(abs, "scripts"), Sessions: filepath.Join(abs, "sessions"),
			State: filepath.Join(abs, "state"), History: filepath.Join(abs, "state", "history")}, nil
	}
	home := getenv("HOME")
	dir := func(env, fallback string) string {
		if d := getenv(env); filepath.IsAbs(d) {
			return filepath.Join(d, "dshsh")
		}
		return filepath.Join(home, fallback, "dshsh")
	}
	if home == "" && getenv("XDG_CONFIG_HOME") == "" {
		return Paths{}, errors.New("no home folder: set HOME or DSHSH_HOME")
	}
	conf, data, state := dir("XDG_CONFIG_HOME", ".config"), dir("XDG_DATA_HOME", ".local/share"), dir("XDG_STATE_HOME", ".local/state")
	return Paths{Config: conf, Rules: filepath.Join(conf, "rules.toml"), Models: filepath.Join(conf, "models.json"), Scripts: filepath.Join(conf, "scripts"), Sessions: filepath.Join(data, "sessions"),
		State: state, History: filepath.Join(state, "history")}, nil
}
