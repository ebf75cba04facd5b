package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/trust"
)

// projectConfig is the project's configuration file.
func (s *sh) projectConfig() string {
	return filepath.Join(filepath.Dir(s.projectScripts()), "config.toml")
}

// configure reads the configuration: the user's first, since it says where trust is kept, and
// the project's only if it is trusted.
func (s *sh) configure() error {
	in := config.Input{Getenv: s.e.Getenv, Flags: s.f.given, BaseURL: s.f.baseURL}
	paths, err := config.FindPaths(s.e.Getenv)
	if err != nil {
		return usage(err)
	}
	if s.trusts, err = trust.Open(paths.State); err != nil {
		s.say(err.Error())
	}
	if _, err := os.Lstat(s.projectConfig()); err == nil && s.projectConfig() != paths.File {
		if s.isTrusted() {
			in.Project = s.projectConfig()
		} else {
			s.say(render.Visible(s.projectConfig() + " does not count, since this folder is not trusted: `dshsh scripts trust` or --trust changes that, from the next start on"))
		}
	}
	var unread *fs.PathError
	switch s.cfg, err = config.Load(in); {
	case errors.As(err, &unread):
		return err
	case err != nil:
		return usage(err)
	}
	return nil
}

// policies are the bundled policies that are switched on.
func (s *sh) policies() []string { return slices.Concat(s.cfg.Policies, s.f.policies) }

func newConfigCommand(e *Env) *cobra.Command {
	f := &flags{}
	explain := false
	c := &cobra.Command{
		Use:   "config [flags]",
		Short: "Show the configuration that holds here",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
			if err != nil {
				return err
			}
			defer s.stop()
			for _, set := range s.cfg.Settings() {
				switch {
				case explain:
					value := cmp.Or(set.String(), "(not set: "+cmp.Or(set.Key.Default, "none")+")")
					fmt.Fprintf(e.Stdout, "%s = %s\n    %s\n    from: %s\n", set.Key.Name, render.Visible(value), set.Key.Doc, render.Visible(set.Origin))
				case set.Value != nil:
					fmt.Fprintf(e.Stdout, "%s = %s\n", set.Key.Name, render.Visible(set.String()))
				}
			}
			return nil
		},
	}
	f.add(c, false)
	c.Flags().BoolVar(&explain, "explain", false, "show all keys, what they are and where each value comes from")
	return c
}
