package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/runtime/reload"
)

// newScriptsCommand is `dshsh scripts`.
func newScriptsCommand(e *Env, f *flags) *cobra.Command {
	c := &cobra.Command{Use: "scripts", Short: "Look at scripts and trust them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the scripts of this folder and what became of them", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return listScripts(cmd.Context(), e, f) }},
		&cobra.Command{Use: "trust", Short: "Trust the scripts of this folder as they are now", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return trustScripts(e, f) }},
	)
	return c
}

func listScripts(ctx context.Context, e *Env, f *flags) error {
	s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	if _, err := s.start(ctx); err != nil {
		return err
	}
	list := s.manager.Status(ctx)
	if len(list) == 0 {
		fmt.Fprintf(e.Stderr, "no scripts: put *.js or *.lua files into %s or %s\n", scriptsPlace, s.cfg.Paths.Scripts)
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for _, sc := range list {
		fmt.Fprintln(w, scriptLine(sc))
	}
	return w.Flush()
}

// scriptLine is one row of a list of scripts.
func scriptLine(sc reload.Script) string {
	state := string(sc.State)
	if sc.State == reload.StateHeld {
		state = "not trusted"
	}
	line := fmt.Sprintf("%s\t%s\t%d listeners", render.Visible(sc.ID), state, sc.Listeners)
	if sc.Err != nil {
		line += "\t" + render.Visible(firstLine(sc.Err.Error()))
	}
	return line
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func trustScripts(e *Env, f *flags) error {
	s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	err = s.trustProject()
	if errors.Is(err, errNoFolder) {
		return fmt.Errorf("there is no %s here to trust", scriptsPlace)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "%s is trusted as it is now; a save outside of dshsh asks again\n", s.projectScripts())
	return nil
}

// untrustedLine says which scripts wait for trust.
func untrustedLine(s *sh, r reload.Report) string {
	var names []string
	for _, c := range r.Held {
		names = append(names, c.File)
	}
	return render.Visible(fmt.Sprintf("%s is not trusted, so its scripts do not run (%s): `dshsh scripts trust` or --trust changes that",
		s.projectScripts(), strings.Join(names, ", ")))
}
