package config

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of a Key's value.
const (
	kindText   = "text"
	kindNumber = "number"
	kindBool   = "true or false"
	kindList   = "list of texts"
)

// Key is something that can be set. Plain data.
type Key struct {
	Name    string // as in the file, with its table: "openai.key"
	Kind    string
	Default string   // in words
	Choices []string // of a text; nil = any
	Env     string   // a variable that sets it too
	Flag    string   // a flag that sets it too, without --
	Project bool     // a project's file may set it
	Adds    bool     // of a list: what the places name adds up
	Secret  bool     // the value is not shown
	Doc     string
}

// keys is all that can be set, in the order of the reference.
var keys = []Key{
	{Name: "provider", Kind: kindText, Default: "the first service that has a key or an address, else offline", Choices: []string{"openai", "deepseek", "anthropic", "offline"},
		Flag: "provider", Project: true, Doc: "The model service of new sessions."},
	{Name: "model", Kind: kindText, Default: "the service's usual one", Flag: "model", Project: true,
		Doc: "The model of that service. One that stands in a file counts only for the provider that is named there or in a weaker place."},
	{Name: "fallback", Kind: kindList, Default: "none", Flag: "fallback", Project: true,
		Doc: "Models, as `MODEL` of the same service or `PROVIDER/MODEL`, that a turn goes on with, in this order, when the service cannot be reached, does not let one in or does not know the model. The next turn begins with the first model again."},
	{Name: "max-retries", Kind: kindNumber, Default: "5", Flag: "max-retries", Project: true, Doc: "How often a failed model call is tried again."},
	{Name: "max-steps", Kind: kindNumber, Default: "no limit", Flag: "max-steps", Project: true, Doc: "A turn ends after so many steps; 0 is no limit."},
	{Name: "max-continuations", Kind: kindNumber, Default: "25", Flag: "max-continuations", Project: true, Doc: "How often in a row scripts may continue a turn."},
	{Name: "approve", Kind: kindText, Default: "ask", Choices: []string{"ask", "never", "all"}, Flag: "approve",
		Doc: "What becomes of calls that need approval, see [approvals](approvals.md)."},
	{Name: "confine", Kind: kindBool, Default: "false", Project: true,
		Doc: "Refuse the file tools all that lies outside of the project's folder, instead of asking. A project can only set true. Commands are not confined."},
	{Name: "policies", Kind: kindList, Default: "none", Project: true, Adds: true,
		Doc: "Bundled policies that are switched on, as with `--policy`. What the places name adds up."},
	{Name: "bell", Kind: kindBool, Default: "false", Doc: "Let the terminal ring when a question waits, and when a turn of ten seconds or more has ended."},
	{Name: "deepseek.key", Kind: kindText, Env: "DEEPSEEK_API_KEY", Secret: true, Doc: "The key of the service."},
	{Name: "deepseek.base-url", Kind: kindText, Default: "the service's own", Env: "DEEPSEEK_BASE_URL", Doc: "The address of the service."},
	{Name: "openai.key", Kind: kindText, Env: "OPENAI_API_KEY", Secret: true, Doc: "The key of the service."},
	{Name: "openai.base-url", Kind: kindText, Default: "the service's own", Env: "OPENAI_BASE_URL", Doc: "The address of the service, or of any that speaks the same: `http://localhost:11434/v1`."},
	{Name: "anthropic.key", Kind: kindText, Env: "ANTHROPIC_API_KEY", Secret: true, Doc: "The key of the service."},
	{Name: "anthropic.base-url", Kind: kindText, Default: "the service's own", Env: "ANTHROPIC_BASE_URL", Doc: "The address of the service."},
}

// Reference is docs/config.md: all keys, made from the schema.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the schema: go test ./cmd/dshsh/internal/config -update -->

What dshsh is told comes from five places, the later ones stronger: what is built in, ` + "`config.toml`" + ` in the configuration folder
(` + "`$DSHSH_HOME`, else `$XDG_CONFIG_HOME/dshsh` or `~/.config/dshsh`" + `), ` + "`.dshsh/config.toml`" + ` of the project, the environment, flags.
` + "`dshsh config`" + ` shows what holds, ` + "`dshsh config --explain`" + ` also where it comes from and what each key is. Files are read at the start.

A project's file counts once the folder is trusted (` + "`dshsh scripts trust`, `--trust`" + `), and sets no addresses, no keys and nothing that
approves; what a person has said about a route on the command line stays.

` + "```toml" + `
provider = "openai"
model = "qwen3"
confine = true

[openai]
base-url = "http://localhost:11434/v1"
` + "```" + `

| Key | Value | By default | Also | In a project | |
|---|---|---|---|---|---|
`)
	for _, k := range keys {
		kind := k.Kind
		if k.Choices != nil {
			kind = strings.Join(k.Choices, ", ")
		}
		var also []string
		if k.Env != "" {
			also = append(also, "`"+k.Env+"`")
		}
		if k.Flag != "" {
			also = append(also, "`--"+k.Flag+"`")
		}
		project := "no"
		if k.Project {
			project = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, kind, k.Default, strings.Join(also, ", "), project, k.Doc)
	}
	b.WriteString("\n`openai.key` is `key` below `[openai]`. Keys are better in the environment, or in a file that nobody else may read. What models can\ndo stands in `models.json`, and what was allowed for good in `rules.toml`, see [approvals](approvals.md).\n")
	return b.String()
}

// check makes a value of a file what the key wants: string, int, bool or []string.
func (k Key) check(v any) (any, error) {
	switch x := v.(type) {
	case string:
		if k.Kind == kindText && k.Choices != nil && !slices.Contains(k.Choices, x) {
			return nil, fmt.Errorf("%s: there is no %q%s", k.Name, x, meant(x, k.Choices))
		}
		if strings.HasSuffix(k.Name, "base-url") && !isAddress(x) {
			return nil, fmt.Errorf("%s: want an address such as http://localhost:11434/v1", k.Name)
		}
		if k.Kind == kindText && x != "" {
			return x, nil
		}
	case int64:
		if k.Kind == kindNumber && x >= 0 && x < 1<<31 {
			return int(x), nil
		}
	case bool:
		if k.Kind == kindBool {
			return x, nil
		}
	case []any:
		var list []string
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%s: want a list of texts", k.Name)
			}
			list = append(list, s)
		}
		if k.Kind == kindList {
			return list, nil
		}
	}
	want := map[string]string{kindText: "a text in quotes that is not empty", kindNumber: "a number from 0 on", kindBool: kindBool, kindList: "a " + kindList}[k.Kind]
	return nil, fmt.Errorf("%s: want %s", k.Name, want)
}
