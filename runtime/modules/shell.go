package modules

import (
	"dshsh/runtime"
	"dshsh/runtime/bash"
)

// Shell is ctx.shell, a member for runtime.HostConfig.Members. It only reads texts: no
// grant is needed.
func Shell() *runtime.Member {
	class := &runtime.Class{Name: "shell", Doc: "Reads commands, without running them.", Members: []*runtime.Member{
		{Name: "parse", Load: true, Doc: "What a bash command would run: its programs, also those inside pipes, substitutions, env, sudo, xargs, find -exec and bash -c, with their words (null where only running would tell) and redirections.",
			Signature: "(command: string): ShellCommand", Fn: func(c *runtime.Call) (runtime.Value, error) {
				var command string
				if err := c.Unpack("command", &command); err != nil {
					return nil, err
				}
				return runtime.ValueOf(bash.Parse(command)), nil
			}},
	}}
	shell := &object{class}
	return &runtime.Member{Name: "shell", Doc: "Reads commands, without running them.", Signature: "Shell",
		Get: func(runtime.Object) (runtime.Value, error) { return shell, nil }}
}
