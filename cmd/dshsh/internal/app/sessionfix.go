package app

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/render"
)

// copyCommands are the subcommands of `dshsh session` that make something new of a
// session and leave it as it is.
func copyCommands(e *Env) []*cobra.Command {
	output := ""
	repair := &cobra.Command{Use: "repair [ID]", Short: "Write a mended copy of a damaged session beside it", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return repairSession(e, args, output) }}
	repair.Flags().StringVarP(&output, "output", "o", "", "write the copy to this file, which must not exist")
	fork := &cobra.Command{Use: "fork ID[@SEQ]", Short: "Copy a session up to a record, to go on from there", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return forkCommand(e, args[0]) }}
	file := ""
	export := &cobra.Command{Use: "export [ID]", Short: "Write a session as Markdown", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return exportSession(e, args, file) }}
	export.Flags().StringVarP(&file, "output", "o", "", "write to this file, which must not exist, instead of standard output")
	return []*cobra.Command{repair, fork, export}
}

func repairSession(e *Env, args []string, output string) error {
	store, id, err := sessionStore(e, args, true)
	if err != nil {
		return err
	}
	m, err := store.Repair(id, output)
	if err != nil {
		return err
	}
	if m.Path == "" {
		fmt.Fprintf(e.Stdout, "session %s is whole: %d records\n", id, m.Records)
		return nil
	}
	for _, c := range m.Changes {
		fmt.Fprintf(e.Stdout, "line %d: %s\n", c.Line, render.Visible(c.Message))
	}
	fmt.Fprintf(e.Stdout, "%d records, %d of them lost, written to %s\n", m.Records, m.Lost, render.Visible(m.Path))
	if output == "" {
		fmt.Fprintf(e.Stdout, "go on with it: dshsh --resume %s\n", m.ID)
	}
	return nil
}

func forkCommand(e *Env, spec string) error {
	id, boundary, err := parseFork(spec)
	if err != nil {
		return usage(err)
	}
	store, id, err := sessionStore(e, []string{id}, true)
	if err != nil {
		return err
	}
	log, err := store.ForkFrom(id, boundary, "")
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(e.Stdout, "session %s: %d records of %s\ngo on with it: dshsh --resume %s\n", log.ID(), log.FirstLive(), id, log.ID())
	return nil
}

func exportSession(e *Env, args []string, file string) error {
	store, id, err := sessionStore(e, args, true)
	if err != nil {
		return err
	}
	header, recs, _, err := store.Read(id)
	if err != nil {
		return err
	}
	text := render.Markdown(header, recs)
	if file == "" {
		if e.TTY {
			text = render.Visible(text)
		}
		_, err := io.WriteString(e.Stdout, text)
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("session export: %w", err)
	}
	if _, err := f.WriteString(text); err != nil {
		_ = f.Close()
		return fmt.Errorf("session export: %w", err)
	}
	return f.Close()
}
