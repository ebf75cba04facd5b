package shell

import (
	"path"
	"strings"
)

// keys are the variables that hold the keys of model services.
var keys = []string{"DEEPSEEK_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"}

// quiet keeps programs from waiting for a person who is not there.
var quiet = []string{
	"TERM=dumb", // git and others then refuse to open an editor instead of trying
	"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat",
	"EDITOR=" + noEditor, "VISUAL=" + noEditor, "GIT_EDITOR=" + noEditor, "GIT_SEQUENCE_EDITOR=" + noEditor,
	"GIT_TERMINAL_PROMPT=0", "SSH_ASKPASS_REQUIRE=never", "DEBIAN_FRONTEND=noninteractive", "PIP_NO_INPUT=1",
}

// noEditor is run by a shell with the file's name behind it.
const noEditor = `echo "there is no editor here: give the text as an option, such as git commit -m" >&2; false`

// childEnv is the environment of commands: environ without keys and with the settings
// above. A variable that holds the value of a key under another name goes too.
func childEnv(environ, scrub []string, dir string) []string {
	secret := func(name string) bool {
		for _, k := range keys {
			if strings.EqualFold(name, k) {
				return true
			}
		}
		for _, pattern := range scrub {
			if ok, err := path.Match(pattern, name); ok || (err != nil && pattern == name) {
				return true
			}
		}
		return false
	}
	var values []string
	for _, kv := range environ {
		// Shorter values are no keys, and would take away half of the environment.
		if name, value, _ := strings.Cut(kv, "="); secret(name) && len(value) >= 8 {
			values = append(values, value)
		}
	}
	set := append([]string{"PWD=" + dir}, quiet...)
	var env []string
next:
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || secret(name) {
			continue
		}
		for _, s := range set {
			if strings.HasPrefix(s, name+"=") {
				continue next
			}
		}
		for _, v := range values {
			if strings.Contains(value, v) {
				continue next
			}
		}
		env = append(env, kv)
	}
	return append(env, set...)
}

// lookup returns the value of a variable; the last one counts, as in a shell.
func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(environ[i], "="); k == name {
			return v
		}
	}
	return ""
}
