package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime/reload"
)

// newScriptsCommand is `dshsh scripts`.
func newScriptsCommand(e *Env, f *flags) *cobra.Command {
	c := &cobra.Command{Use: "scripts", Short: "Write, check, list and trust scripts", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the scripts of this folder and what became of them", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return listScripts(cmd.Context(), e, f) }},
		&cobra.Command{Use: "events [NAME]", Short: "Describe the events that scripts can hear", Args: cobra.MaximumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return describeEvents(e, args) }},
		newTrustCommand(e, f), newCheckCommand(e, f), newNewCommand(e, f),
	)
	return c
}

func newTrustCommand(e *Env, f *flags) *cobra.Command {
	revoke := false
	c := &cobra.Command{Use: "trust", Short: "Trust the scripts of this folder as they are now, and answer what they need", Args: noArgs,
		Long: "trust lets the scripts of this folder run as they are now, and asks about what each script needs of files, programs and\n" +
			"servers. The answers are read from standard input; without one nothing is granted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if revoke {
				return revokeTrust(e, f)
			}
			return trustScripts(cmd.Context(), e, f)
		}}
	c.Flags().BoolVar(&revoke, "revoke", false, "trust the folder no longer, and take back all that was granted in it")
	c.Flags().StringArrayVar(&f.scripts, "script", nil, "answer what this script needs too (repeatable)")
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
		fmt.Fprintf(e.Stderr, "no scripts: put *.js, *.ts or *.lua files into %s or %s\n", scriptsPlace, s.cfg.Paths.Scripts)
		return nil
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for _, sc := range list {
		fmt.Fprintln(w, scriptLine(sc, s.needsOf(ctx, sc.ID)))
	}
	return w.Flush()
}

// scriptLine is one row of a list of scripts.
func scriptLine(sc reload.Script, needs string) string {
	state := string(sc.State)
	if sc.State == reload.StateHeld {
		state = "not trusted"
	}
	line := fmt.Sprintf("%s\t%s\t%s", render.Visible(sc.ID), state, sc.Offers)
	if needs != "" {
		line += "\tneeds " + needs
	}
	if sc.Err != nil {
		line += "\t" + render.Visible(firstLine(sc.Err.Error()))
	}
	return line
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// describeEvents prints the catalogue: a line each, or one event with its samples.
func describeEvents(e *Env, args []string) error {
	if len(args) == 0 {
		w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
		for _, ev := range loop.Catalogue().Events() {
			doc, _, _ := strings.Cut(ev.Doc, ".")
			fmt.Fprintf(w, "%s\t%s\t%s.\n", ev.Name, ev.Mode, doc)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintln(e.Stdout, "\n`dshsh scripts events NAME` shows what one carries, what it takes, and a listener in each language.")
		return err
	}
	ev, err := loop.Catalogue().Lookup(args[0])
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(e.Stdout, "%s (%s)\n\n%s\n\nIt carries: %s\n", ev.Name, ev.Mode, ev.Doc, fieldsOf(ev.Payload))
	if ev.Result != nil {
		fmt.Fprintf(e.Stdout, "An answer:  %s\n", fieldsOf(ev.Result))
	}
	if len(ev.Filters()) > 0 {
		fmt.Fprintf(e.Stdout, "Filters:    %s\n", strings.Join(ev.Filters(), ", "))
	}
	fmt.Fprintf(e.Stdout, "\nJavaScript:\n%s\n\nLua:\n%s\n", indent(ev.Samples.JS), indent(ev.Samples.Lua))
	return nil
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// fieldsOf lists a shape's members as scripts name them.
func fieldsOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "nothing"
	}
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		if strings.Contains(opts, "omit") {
			name += "?"
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			name += " (" + strings.ReplaceAll(enum, "|", ", ") + ")"
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return "nothing that can be read"
	}
	return strings.Join(out, ", ")
}

var errNoScripts = errors.New("there is no " + scriptsPlace + " here to trust")

func trustScripts(ctx context.Context, e *Env, f *flags) error {
	s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	err = s.trustProject()
	missing := errors.Is(err, errNoFolder)
	switch {
	case missing:
	case err != nil:
		return err
	default:
		fmt.Fprintf(e.Stdout, "%s is trusted as it is now; a save while no dshsh runs here asks again\n", s.projectScripts())
	}
	rep, err := s.start(ctx) // what a script needs it says itself
	if err != nil {
		return err
	}
	for _, fail := range rep.Failures {
		fmt.Fprintln(e.Stderr, render.Visible(fail.String()))
	}
	wants := s.wanting(ctx)
	if missing && len(wants) == 0 && len(f.scripts) == 0 {
		return errNoScripts
	}
	if len(wants) == 0 {
		line := "there is nothing to grant: the scripts have what they need"
		if len(rep.Failures) > 0 {
			line = "there is nothing to grant to the scripts that load"
		}
		fmt.Fprintln(e.Stdout, line)
	}
	in := bufio.NewScanner(e.Stdin)
	for _, w := range wants {
		ask := func() string {
			fmt.Fprint(e.Stdout, render.Visible(w.id+" needs, in this folder:\n"+needLines(w)), "Grant it? y / n / show ")
			in.Scan()
			return strings.ToLower(strings.TrimSpace(in.Text()))
		}
		answer := ask()
		for answer == "show" {
			showHeld(func(line string) { fmt.Fprintln(e.Stdout, line) }, []reload.Candidate{s.inForce(ctx, w)})
			answer = ask()
		}
		switch answer {
		case "y", "yes":
			if err := s.grant(w); err != nil {
				return err
			}
			fmt.Fprintln(e.Stdout, "granted; --revoke takes it back")
		default:
			fmt.Fprintln(e.Stdout, "not granted")
		}
	}
	return nil
}

func revokeTrust(e *Env, f *flags) error {
	s, err := newShell(e, f, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	n, err := s.trusts.Revoke(s.grants.folder)
	if err := errors.Join(err, s.trusts.Forget(s.projectScripts())); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "%s is not trusted, and %d grants are taken back; a shell that runs keeps what it has, and takes no change any more without asking\n", s.projectScripts(), n)
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
