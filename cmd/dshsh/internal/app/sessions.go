package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/session"
)

// newSessionCommand is `dshsh session`.
func newSessionCommand(e *Env) *cobra.Command {
	c := &cobra.Command{Use: "session", Short: "Look at stored sessions", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	all, asJSON := false, false
	list := &cobra.Command{Use: "list", Short: "List the sessions of this folder, newest first", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return listSessions(e, all, asJSON) }}
	list.Flags().BoolVarP(&all, "all", "a", false, "of all folders")
	list.Flags().BoolVar(&asJSON, "json", false, "as JSON, one session a line")
	show := &cobra.Command{Use: "show [ID]", Short: "Show a session, by default the newest of this folder", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return showSession(e, args) }}
	check := &cobra.Command{Use: "check [ID]", Short: "Check a session's log, by default the newest of this folder", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return checkSession(e, args) }}
	c.AddCommand(list, show, check)
	c.AddCommand(copyCommands(e)...)
	return c
}

// sessionStore opens the store, and finds the session that args name.
func sessionStore(e *Env, args []string, find bool) (*session.Store, string, error) {
	paths, err := config.FindPaths(e.Getenv)
	if err != nil {
		return nil, "", err
	}
	store, err := openStore(e, &config.Config{Paths: paths})
	if err != nil || !find {
		return store, "", err
	}
	if len(args) > 0 {
		id, err := store.Resolve(args[0])
		return store, id, err
	}
	dir, err := (&flags{}).workDir(e)
	if err != nil {
		return nil, "", err
	}
	id, err := newestSession(store, dir)
	return store, id, err
}

// newestSession is the id of a folder's newest session.
func newestSession(store *session.Store, dir string) (string, error) {
	info, err := store.Newest(dir)
	if errors.Is(err, session.NotFound) {
		return "", errors.New("there is no session of this folder; `dshsh session list -a` shows those of all folders")
	}
	return info.ID, err
}

// sessionEntry is a line of `session list --json`. Times are milliseconds since 1970. Plain
// data.
type sessionEntry struct {
	ID      string `json:"id"`
	Cwd     string `json:"cwd"`
	Title   string `json:"title,omitempty"`
	Created int64  `json:"created"`
	Updated int64  `json:"updated"`
	Records int    `json:"records"` // -1: not counted, since the log is large
	Parent  string `json:"parent,omitempty"`
	OpenIn  string `json:"openIn,omitempty"`
	Warning string `json:"warning,omitempty"`
}

func listSessions(e *Env, all, asJSON bool) error {
	store, _, err := sessionStore(e, nil, false)
	if err != nil {
		return err
	}
	dir, err := (&flags{}).workDir(e)
	if err != nil {
		return err
	}
	infos, err := store.List()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	n := 0
	for _, in := range infos {
		if !all && in.Header.Cwd != dir && in.Warning == "" {
			continue
		}
		n++
		if asJSON {
			entry := sessionEntry{ID: in.ID, Cwd: in.Header.Cwd, Title: sessionTitle(store, in.ID), Created: in.Header.CreatedAt, Updated: in.Updated,
				Records: int(in.Records), Parent: in.Header.ParentSession, Warning: in.Warning}
			if in.Holder != nil {
				entry.OpenIn = in.Holder.String()
			}
			if err := json.NewEncoder(e.Stdout).Encode(entry); err != nil {
				return err
			}
			continue
		}
		line := sessionLine(in)
		if title := sessionTitle(store, in.ID); title != "" && in.Warning == "" {
			line += "\t" + render.Visible(title)
		}
		fmt.Fprintln(w, line)
	}
	if n == 0 {
		fmt.Fprintln(e.Stderr, "no sessions of this folder; -a lists those of all")
	}
	return w.Flush()
}

// sessionLine is one row of a list.
func sessionLine(in session.Info) string {
	records := "?"
	if in.Records >= 0 {
		records = fmt.Sprint(in.Records)
	}
	line := fmt.Sprintf("%s\t%s\t%s records\t%s", in.ID, time.UnixMilli(in.Updated).Format("2006-01-02 15:04"), records, render.Visible(in.Header.Cwd))
	if in.Holder != nil {
		line += "\topen in " + in.Holder.String()
	}
	if in.Warning != "" {
		line += "\t! " + render.Visible(in.Warning)
	}
	return line
}

// maxTitle is how many characters of a session's first prompt stand for it.
const maxTitle = 60

// sessionTitle is what a session is about: its first prompt, in a line, or "".
func sessionTitle(store *session.Store, id string) string {
	head, _, err := store.Peek(id)
	if err != nil {
		return ""
	}
	for _, t := range loop.Turns(head) {
		if title := render.Beginning(t.Prompt, maxTitle); title != "" {
			return title
		}
	}
	return ""
}

func showSession(e *Env, args []string) error {
	store, id, err := sessionStore(e, args, true)
	if err != nil {
		return err
	}
	_, recs, rep, err := store.Read(id)
	if err != nil {
		return err
	}
	r := render.New(render.Options{Replay: true, ResultLines: 20})
	fmt.Fprintf(e.Stdout, "session %s\n", id)
	for _, rec := range recs {
		if _, err := io.WriteString(e.Stdout, r.Record(rec)); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(e.Stdout, r.Flush()); err != nil {
		return err
	}
	if rep.Damaged() {
		return rep.Err()
	}
	return nil
}

func checkSession(e *Env, args []string) error {
	store, id, err := sessionStore(e, args, true)
	if err != nil {
		return err
	}
	rep, err := store.Check(id)
	if err != nil {
		return err
	}
	for _, p := range rep.Problems {
		fmt.Fprintf(e.Stdout, "line %d: %s\n", p.Line, render.Visible(p.Message))
	}
	for _, w := range rep.Warnings {
		fmt.Fprintln(e.Stdout, render.Visible(w))
	}
	if rep.Damaged() {
		return rep.Err()
	}
	_, recs, _, err := store.Read(id)
	if err != nil {
		return err
	}
	if problems := loop.Verify(recs); len(problems) > 0 {
		for _, p := range problems {
			fmt.Fprintln(e.Stdout, render.Visible(p.Error()))
		}
		return fmt.Errorf("session %s: what the model saw cannot be rebuilt from %d records", id, len(problems))
	}
	if rep.Torn != nil {
		fmt.Fprintf(e.Stdout, "the last record is cut off (%d bytes); resuming puts it aside\n", rep.Torn.Bytes)
	}
	fmt.Fprintf(e.Stdout, "session %s: %d records, whole\n", id, rep.Records)
	return nil
}
