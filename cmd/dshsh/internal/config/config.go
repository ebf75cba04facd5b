// Package config turns files, the environment and the flags into one checked value, and keeps
// the file of rules. It knows no other package of the program.
package config

import (
	"cmp"
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
	Routed     bool
	Services   []Service
	NoKey      bool // no provider is configured: the offline one is used
	Approve    string
	MaxSteps   int
	MaxForced  int         // continuations in a row that scripts may force; 0 = the default
	MaxRetries int         // of a failed model call; -1 = the default
	Fallback   [][2]string // provider and model of those that answer when the first fails
	Policies   []string    // bundled ones that are switched on
	Confine    bool        // files outside of the project are refused
	Bell       bool
	settings   settings
}

// Paths are the places of the user's files. All absolute.
type Paths struct {
	File     string // config.toml
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

// Input is where the configuration comes from.
type Input struct {
	Getenv func(string) string
	// Flags are those that were given, by the name of their key: text, number or list.
	Flags map[string]any
	// BaseURL is the flag --base-url, which is the address of the provider that is named.
	BaseURL string
	// Project is the project's file, "" for none: it must be trusted.
	Project string
}

// defaultModels are used where a provider is chosen without a model.
var defaultModels = map[string]string{
	"openai": "gpt-5.2", "deepseek": "deepseek-flash", "anthropic": "claude-sonnet-5-5", "offline": "offline",
}

// Keys is how a message tells what configures a provider.
const Keys = "DEEPSEEK_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"

// Load checks and joins the files, the environment and the flags.
func Load(in Input) (*Config, error) {
	paths, err := FindPaths(in.Getenv)
	if err != nil {
		return nil, err
	}
	set, err := gather(paths.File, in.Project, in.Getenv, in.Flags)
	if err != nil {
		return nil, err
	}
	c := &Config{Paths: paths, settings: set, Approve: cmp.Or(set.text("approve"), "ask"), MaxSteps: set.number("max-steps"), MaxForced: set.number("max-continuations"),
		MaxRetries: -1, Confine: set.yes("confine"), Bell: set.yes("bell")}
	c.Policies, _ = set["policies"].Value.([]string)
	if set["max-retries"].Value != nil {
		c.MaxRetries = set.number("max-retries")
	}
	if c.MaxSteps < 0 || c.MaxForced < 0 {
		return nil, errors.New("--max-steps and --max-continuations take a positive number")
	}
	f := route{Provider: set.text("provider"), Model: set.text("model"), BaseURL: in.BaseURL}
	if in.BaseURL != "" && set["provider"].layer < layerFlags {
		f.Provider = "" // an address of the command line is no other service's
	}
	if from := set["model"].layer; from < set["provider"].layer || in.BaseURL != "" && from < layerFlags {
		f.Model = "" // it is another service's
	}
	for _, name := range []string{"deepseek", "openai", "anthropic"} {
		key := set[name+".key"]
		s := Service{Name: name, BaseURL: set.text(name + ".base-url"), Key: set.text(name + ".key"), KeyHint: key.Key.Env}
		if f.BaseURL != "" && s.Name == serviceOf(f) {
			s.BaseURL = f.BaseURL
		}
		if s.Key != "" || s.BaseURL != "" {
			c.Services = append(c.Services, s)
		}
	}
	c.Provider, c.Model = f.Provider, f.Model
	c.Routed = in.BaseURL != "" || set["provider"].layer == layerFlags || set["model"].layer == layerFlags
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
		if !isAddress(f.BaseURL) {
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
	names, _ := set["fallback"].Value.([]string)
	for _, name := range names {
		r, err := c.route(name)
		if err != nil {
			return nil, fmt.Errorf("fallback (%s): %w", set["fallback"].Origin, err)
		}
		c.Fallback = append(c.Fallback, r)
	}
	return c, nil
}

// route reads MODEL, of the provider that is set, or PROVIDER/MODEL. A model's own name may
// hold a slash.
func (c *Config) route(name string) ([2]string, error) {
	name = strings.TrimSpace(name)
	provider, of, ok := strings.Cut(name, "/")
	if _, service := defaultModels[provider]; !ok || !service {
		provider, of = c.Provider, name
	}
	if of == "" {
		return [2]string{}, fmt.Errorf("%q names no model, want MODEL or PROVIDER/MODEL", name)
	}
	return [2]string{provider, of}, (&Config{Provider: provider, Services: c.Services}).checkProvider()
}

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// route is what was asked for.
type route struct{ Provider, Model, BaseURL string }

// serviceOf is the service that --base-url speaks of.
func serviceOf(f route) string {
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

// FindPaths follows DSHSH_HOME, else the XDG folders.
func FindPaths(getenv func(string) string) (Paths, error) {
	if home := getenv("DSHSH_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return Paths{}, fmt.Errorf("DSHSH_HOME: %w", err)
		}
		return Paths{Config: abs, File: filepath.Join(abs, "config.toml"), Rules: filepath.Join(abs, "rules.toml"), Models: filepath.Join(abs, "models.json"), Scripts: filepath.Join(abs, "scripts"), Sessions: filepath.Join(abs, "sessions"),
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
	return Paths{Config: conf, File: filepath.Join(conf, "config.toml"), Rules: filepath.Join(conf, "rules.toml"), Models: filepath.Join(conf, "models.json"), Scripts: filepath.Join(conf, "scripts"), Sessions: filepath.Join(data, "sessions"),
		State: state, History: filepath.Join(state, "history")}, nil
}
