package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime/reload"
	"dshsh/session"
)

// newDoctorCommand is `dshsh doctor`.
func newDoctorCommand(e *Env, f *flags) *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Check what the shell needs, and say how to mend what is amiss", Args: noArgs,
		Long: "doctor looks at the folders, the script engines, the watching of files, this folder's scripts, its sessions, the terminal and\n" +
			"the configured model services. It runs the scripts that a start here would run, and sends services no request that costs\n" +
			"anything. It exits 1 when something is amiss.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), e, f) }}
}

// doctor says what is found, a line each. One goroutine uses it.
type doctor struct {
	e     *Env
	amiss int
	noted int
}

func (d *doctor) line(mark, what, text string) {
	text = strings.ReplaceAll(render.Visible(text), "\n", "\n                ")
	fmt.Fprintf(d.e.Stdout, "%-4s  %-9s %s\n", mark, what, text)
}

func (d *doctor) ok(what, format string, args ...any) {
	d.line("ok", what, fmt.Sprintf(format, args...))
}

// note is for what works, with a limit that a person should know.
func (d *doctor) note(what, format string, args ...any) {
	d.noted++
	d.line("note", what, fmt.Sprintf(format, args...))
}

func (d *doctor) bad(what, format string, args ...any) {
	d.amiss++
	d.line("BAD", what, fmt.Sprintf(format, args...))
}

func runDoctor(ctx context.Context, e *Env, f *flags) error {
	d := &doctor{e: e}
	fmt.Fprintln(e.Stdout, versionLine())
	s, err := newShell(e, f, func(line string) { d.note("start", "%s", line) }, nil)
	if err != nil {
		d.bad("start", "%v", err)
		return &exitCode{exitError, nil}
	}
	defer s.stop()
	d.folders(s)
	d.watching(s)
	d.scripts(ctx, s)
	d.sessions(s)
	d.terminal()
	d.services(ctx, s)
	switch {
	case d.amiss > 0:
		fmt.Fprintf(e.Stdout, "\n%s amiss\n", count(d.amiss, "thing is", "things are"))
		return &exitCode{exitError, nil}
	case d.noted > 0:
		fmt.Fprintf(e.Stdout, "\nall is well, with %s\n", count(d.noted, "note", "notes"))
	default:
		fmt.Fprintln(e.Stdout, "\nall is well")
	}
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// folders tries to write where the shell has to.
func (d *doctor) folders(s *sh) {
	p := s.cfg.Paths
	for _, dir := range []string{p.Sessions, p.State} {
		if err := tryWrite(dir); err != nil {
			d.bad("folder", "%v; set DSHSH_HOME to a folder that can be written", err)
		} else {
			d.ok("folder", "%s", dir)
		}
	}
	for _, dir := range []string{p.Config, p.State} {
		if fi, err := os.Stat(dir); err == nil && fi.Mode().Perm()&0o022 != 0 {
			d.bad("folder", "%s can be written by others (%v), who could then run scripts as you: chmod go-w %[1]s", dir, fi.Mode().Perm())
		}
	}
}

func tryWrite(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// watching asks the system for what a watch of the script folders takes.
func (d *doctor) watching(s *sh) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		dir := s.projectScripts()
		if _, serr := os.Stat(dir); serr != nil {
			dir = s.dir
		}
		err = errors.Join(w.Add(dir), w.Close())
	}
	if err != nil {
		d.note("watch", "files cannot be watched (%v): saves are found by looking, some seconds later; on linux raise fs.inotify.max_user_instances and max_user_watches", err)
		return
	}
	text := "saves are noticed as they happen"
	for _, name := range []string{"max_user_instances", "max_user_watches"} {
		if b, err := os.ReadFile("/proc/sys/fs/inotify/" + name); err == nil {
			text += fmt.Sprintf("; %s %s", name, strings.TrimSpace(string(b)))
		}
	}
	d.ok("watch", "%s", text)
}

// scripts loads what a start here loads.
func (d *doctor) scripts(ctx context.Context, s *sh) {
	if _, err := s.start(ctx); err != nil {
		d.bad("scripts", "%v", err)
		return
	}
	list := s.manager.Status(ctx)
	if len(list) == 0 {
		d.ok("scripts", "none in %s or %s", s.projectScripts(), s.cfg.Paths.Scripts)
	}
	for _, sc := range list {
		switch {
		case sc.Err != nil:
			d.bad("scripts", "%s: %v", sc.ID, sc.Err)
		case sc.State == reload.StateHeld:
			d.note("scripts", "%s is not trusted, so it does not run: dshsh scripts trust", sc.ID)
		default:
			d.ok("scripts", "%s", strings.ReplaceAll(scriptLine(sc, s.needsOf(ctx, sc.ID)), "\t", "  "))
		}
	}
	if line := s.misplaced(); line != "" {
		d.note("scripts", "%s", line)
	}
}

// sessions checks this folder's newest sessions.
func (d *doctor) sessions(s *sh) {
	const most = 5
	infos, err := s.store.List()
	if err != nil {
		d.bad("sessions", "%v", err)
		return
	}
	checked, whole := 0, 0
	for _, in := range infos {
		if in.Header.Cwd != s.dir && in.Warning == "" || checked == most {
			continue
		}
		checked++
		if err := checkLog(s.store, in.ID); err != nil {
			d.bad("sessions", "%s: %v; `dshsh session repair %[1]s` writes a mended copy", in.ID, err)
			continue
		}
		whole++
	}
	d.ok("sessions", "%d in all, %s of this folder checked and whole", len(infos), count(whole, "newest one", "newest ones"))
}

func checkLog(store *session.Store, id string) error {
	_, recs, rep, err := store.Read(id)
	if err != nil {
		return err
	}
	if rep.Damaged() {
		return rep.Err()
	}
	if problems := loop.Verify(recs); len(problems) > 0 {
		return problems[0]
	}
	return nil
}

func (d *doctor) terminal() {
	switch {
	case !d.e.TTY:
		d.ok("terminal", "none here: lines are read and written plainly")
	case d.e.Getenv("TERM") == "dumb" || d.e.Getenv("TERM") == "":
		d.note("terminal", "TERM is %q: no line editing; set TERM, such as to xterm-256color", d.e.Getenv("TERM"))
	case !render.ColorFromEnv(true, d.e.Getenv):
		d.ok("terminal", "%s, without colours (NO_COLOR)", d.e.Getenv("TERM"))
	default:
		d.ok("terminal", "%s, with colours", d.e.Getenv("TERM"))
	}
	lang := d.e.Getenv("LC_ALL") + d.e.Getenv("LC_CTYPE") + d.e.Getenv("LANG")
	if l := strings.ToLower(lang); d.e.TTY && lang != "" && !strings.Contains(l, "utf-8") && !strings.Contains(l, "utf8") {
		d.note("terminal", "the locale is %s: text is UTF-8 here, other letters may look wrong", lang)
	}
}

// services looks whether the configured ones can be reached. Only those on this machine are
// spoken to: to look costs nothing there, and tells nobody anything.
func (d *doctor) services(ctx context.Context, s *sh) {
	if len(s.cfg.Services) == 0 {
		d.note("model", "none is configured: the offline provider answers; set %s", "DEEPSEEK_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY, or pass --base-url")
	}
	for _, svc := range s.cfg.Services {
		key := "with a key"
		if svc.Key == "" {
			key = "without a key"
		}
		u, err := url.Parse(svc.BaseURL)
		switch {
		case svc.BaseURL == "":
			d.ok("model", "%s, %s", svc.Name, key)
		case err != nil || u.Host == "":
			d.bad("model", "%s: the address %q is none", svc.Name, svc.BaseURL)
		case !loopback(u.Hostname()):
			d.ok("model", "%s at %s, %s (not asked: it is not on this machine)", svc.Name, svc.BaseURL, key)
		default:
			d.local(ctx, svc.Name, u)
		}
	}
	if _, err := os.Stat(s.cfg.Paths.Models); err == nil {
		d.ok("model", "%s is read", s.cfg.Paths.Models)
	} else if !errors.Is(err, fs.ErrNotExist) {
		d.bad("model", "%v", err)
	}
	if s.cfg.Model != "" {
		d.ok("model", "new sessions use %s/%s", s.cfg.Provider, s.cfg.Model)
	}
}

func (d *doctor) local(ctx context.Context, name string, u *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u.String(), "/")+"/models", nil)
	if err == nil {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		var resp *http.Response
		if resp, err = client.Do(req); err == nil {
			_ = resp.Body.Close()
			d.ok("model", "%s at %s answers (%s)", name, u, resp.Status)
			return
		}
	}
	d.bad("model", "%s at %s does not answer: %v; is the server started?", name, u, err)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newCheckCommand is `dshsh scripts check`.
func newCheckCommand(e *Env, f *flags) *cobra.Command {
	return &cobra.Command{Use: "check [FILE...]", Short: "Load scripts without an agent, and say what they register",
		Long: "check loads the files, or without any the scripts of this folder, as a start does, and exits 5 when one does not load. It\n" +
			"runs their top level whether the folder is trusted or not: look at what you check.",
		RunE: func(cmd *cobra.Command, args []string) error { return checkScripts(cmd.Context(), e, f, args) }}
}

func checkScripts(ctx context.Context, e *Env, f *flags, files []string) error {
	g := *f
	g.trust = true
	g.scripts, g.only = append(g.scripts, files...), len(files) > 0
	s, err := newShell(e, &g, func(line string) { fmt.Fprintln(e.Stderr, line) }, nil)
	if err != nil {
		return err
	}
	defer s.stop()
	s.mu.Lock()
	s.trusted = true // to look at, not to remember
	s.mu.Unlock()
	rep, err := s.start(ctx)
	if err != nil {
		return err
	}
	for _, sc := range s.manager.Status(ctx) {
		if sc.Err == nil {
			fmt.Fprintf(e.Stdout, "%s: %s\n", render.Visible(sc.ID), sc.Offers)
		}
	}
	if len(rep.Failures) > 0 {
		return &exitCode{exitScript, errors.New(strings.TrimPrefix(reportText(rep), "\n"))}
	}
	return nil
}
