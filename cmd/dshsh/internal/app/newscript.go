package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// newNewCommand is `dshsh scripts new`.
func newNewCommand(e *Env, f *flags) *cobra.Command {
	return &cobra.Command{Use: "new NAME.js|NAME.ts|NAME.lua", Short: "Write a first script into this folder", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return newScript(e, f, args[0]) }}
}

// firstScripts are what `scripts new` writes, by the language: a guard that works, to be
// changed.
var firstScripts = map[string]string{
	".js": `// NAME: what it is for.
// A save takes effect at the next turn; /scripts shows what became of it.

ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call, next) => {
  if (call.arguments.command.includes('git push')) {
    return { kind: 'deny', reason: 'pushing is for people' };
  }
  return next(); // what the other scripts and the default policy say
});
`,
	".ts": `// NAME: what it is for.
// A save takes effect at the next turn; /scripts shows what became of it.

ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call, next) => {
  const command: string = (call.arguments as { command: string }).command;
  if (command.includes('git push')) {
    return { kind: 'deny', reason: 'pushing is for people' };
  }
  return next(); // what the other scripts and the default policy say
});
`,
	".lua": `-- NAME: what it is for.
-- A save takes effect at the next turn; /scripts shows what became of it.

ctx.on('tools/pre-execute', { filter = { tool = 'bash' } }, function(call, next)
  if text.contains(call.arguments.command, 'git push') then
    return { kind = 'deny', reason = 'pushing is for people' }
  end
  return next() -- what the other scripts and the default policy say
end)
`,
}

func newScript(e *Env, f *flags, name string) error {
	ext := filepath.Ext(name)
	text, ok := firstScripts[ext]
	if !ok || filepath.Base(name) != name || strings.HasPrefix(name, ".") || name == ext {
		return usage(fmt.Errorf("%q: want a name such as guard.js, guard.ts or guard.lua", name))
	}
	s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	path := filepath.Join(s.projectScripts(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("there is a %s already", path))
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.ReplaceAll(text, "NAME", name))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "%s\n", path)
	fmt.Fprintln(e.Stderr, "`dshsh scripts check` loads it; a prompt in this folder asks whether its scripts may run")
	return nil
}
