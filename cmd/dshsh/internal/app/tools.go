package app

import (
	"encoding/json"
	"os/exec"

	"dshsh/loop"
	"dshsh/loop/tool"
	toolfs "dshsh/loop/tool/fs"
	"dshsh/loop/tool/shell"
	"dshsh/loop/tool/todo"
	"dshsh/session"
)

// makeTools makes the built-in tools.
func (s *sh) makeTools() []tool.Tool {
	s.bash = shell.New(shell.Config{Dir: s.dir, Environ: s.e.Environ, Lingering: s.writers.run})
	rg, err := exec.LookPath("rg")
	if err != nil {
		rg = ""
	}
	s.files = toolfs.New(toolfs.Config{Dir: s.dir, Check: s.policy.CheckPath, Ripgrep: rg})
	return append([]tool.Tool{s.bash, todo.New(), loop.RunCode()}, s.files.Tools()...)
}

// watchTools has the tools know the agents that come and go. On the thread.
func (s *sh) watchTools() {
	loop.AgentCreated.On(s.host.Host, func(p loop.AgentPayload) error {
		if dir := lastDir(p.Agent.Session().Records()); dir != "" {
			s.bash.SetDir(p.Agent.ID(), dir)
		}
		return nil
	})
	loop.AgentDisposed.On(s.host.Host, func(p loop.AgentPayload) error {
		s.bash.Forget(p.Agent.ID())
		s.files.Forget(p.Agent.ID())
		return nil
	})
}

// lastDir is the folder that the last command of a session said the next one starts in, ""
// for the working folder.
func lastDir(records []session.Record) string {
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Type != loop.RecToolResult {
			continue
		}
		var r struct {
			Meta struct {
				ExitCode *int   `json:"exitCode"` // only a command has it
				Cwd      string `json:"cwd"`
			} `json:"meta"`
		}
		if json.Unmarshal(records[i].Data, &r) == nil && r.Meta.ExitCode != nil {
			return r.Meta.Cwd
		}
	}
	return ""
}
