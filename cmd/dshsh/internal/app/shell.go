package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	"dshsh/cmd/dshsh/internal/trust"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/offline"
	"dshsh/loop/model/openai"
	"dshsh/loop/policy"
	toolfs "dshsh/loop/tool/fs"
	"dshsh/loop/tool/shell"
	"dshsh/runtime"
	"dshsh/runtime/modules"
	"dshsh/runtime/reload"
	"dshsh/scripts"
	"dshsh/session"
)

// sh is one running shell: a host with its scripts, tools and sessions. Its fields are
// set before use; say may be called from any goroutine.
type sh struct {
	e       *Env
	f       *flags
	cfg     *config.Config
	dir     string // to work in
	root    string // of the project: dir, or a folder above
	store   *session.Store
	trusts  *trust.Store
	host    *loop.Host
	manager *reload.Manager
	bash    *shell.Bash
	files   *toolfs.Files
	policy  policy.Config

	say    func(line string)                                               // shows a line to the person
	person func(context.Context, runtime.Question) (runtime.Answer, error) // answers scripts; nil = nobody is there. Set before scripts run

	writers  *writers
	grants   *grants
	mu       sync.Mutex        // guards trusted and onReport
	trusted  bool              // the project's scripts may run
	revoked  int               // how often the trust was taken back from outside
	wrote    written           // under mu too
	onReport func()            // scripts have come or changed, or wait for an answer
	rules    policy.Rules      // on the host thread
	shown    map[string]string // last failure shown, by script; on the host thread
	unused   []string          // logs of sessions that nothing was said in; on the host thread
}

// newShell wires a shell; nothing runs yet. approve asks the person (nil: nobody is there).
func newShell(e *Env, f *flags, say func(string), approve asker) (*sh, error) {
	s := &sh{e: e, f: f, say: say, shown: map[string]string{}}
	var err error
	if s.dir, err = f.workDir(e); err != nil {
		return nil, err
	}
	s.root = s.projectRoot()
	if err := s.configure(); err != nil {
		return nil, err
	}
	mode, err := policy.ParseMode(s.cfg.Approve)
	if err != nil {
		return nil, usage(fmt.Errorf("--%w", err))
	}
	if f.maxRetries < 0 {
		return nil, usage(errors.New("--max-retries takes a number from 0 on"))
	}
	if s.store, err = openStore(e, s.cfg); err != nil {
		return nil, err
	}
	s.policy = policy.Config{Dir: s.dir, Root: s.root, Confine: s.cfg.Confine, Protected: s.protected(), Vars: map[string]string{"HOME": e.Getenv("HOME")}}
	s.loadRules()
	s.writers = &writers{now: e.Now}
	tools := s.makeTools()
	providers, err := s.providers()
	if err != nil {
		return nil, err
	}
	s.grants = &grants{store: s.trusts, folder: s.root}
	s.host, err = loop.New(loop.Config{
		Engines:   []runtime.Engine{js.Engine(), lua.Engine()},
		Providers: providers,
		Tools:     tools,
		Commands:  repl.CommandNames(),
		UI:        s,
		Policy:    s,
		Modules:   s.modules(),
		Members:   []*runtime.Member{modules.Shell()},
		Grants:    s.grants,
		Approve:   s.approver(mode, approve),
		Retry:     s.retry,
		Fallback:  s.fallback(),
		Sections:  s.sections(),
		Notices:   s,
		Store:     s.store,
		Caps:      loop.Caps{Steps: s.cfg.MaxSteps, Continuations: s.cfg.MaxForced},
		Now:       e.Now,
		Thread:    runtime.ThreadOptions{OnStuck: s.stuck},
	})
	if err != nil {
		return nil, err
	}
	return s, s.host.Do(context.Background(), func() {
		s.writers.watch(s.host, readsOnly(tools))
		s.watchTools()
	})
}

func openStore(e *Env, c *config.Config) (*session.Store, error) {
	return session.OpenStore(c.Paths.Sessions, session.Options{Now: e.Now, Validator: loop.NewValidator})
}

// readable refuses a script folder that is there and cannot be read: policies that
// cannot be seen must not count as none.
func readable(dir string) error {
	for _, p := range []string{filepath.Dir(dir), dir} {
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if _, err := os.ReadDir(dir); err != nil {
		return &exitCode{exitScript, fmt.Errorf("the scripts in %s cannot be read: %w; mend that, or pass --safe to run without scripts", dir, err)}
	}
	return nil
}

// protected are the places that no tool of the agent may change.
func (s *sh) protected() []string {
	p := []string{s.projectScripts(), filepath.Dir(s.projectScripts()), s.cfg.Paths.Config, s.cfg.Paths.Scripts, s.cfg.Paths.State, s.cfg.Paths.Sessions}
	for _, f := range s.f.scripts {
		if !filepath.IsAbs(f) {
			f = filepath.Join(s.e.Dir, f)
		}
		p = append(p, f)
	}
	return p
}

// providers are the offline one and those that are configured.
func (s *sh) providers() ([]model.Provider, error) {
	models, err := s.models()
	if err != nil {
		return nil, err
	}
	out := []model.Provider{offline.New()}
	for _, svc := range s.cfg.Services {
		o := openai.Options{Name: svc.Name, BaseURL: svc.BaseURL, APIKey: svc.Key, KeyHint: svc.KeyHint, Models: models}
		switch svc.Name {
		case "anthropic":
			out = append(out, anthropic.New(anthropic.Options{BaseURL: svc.BaseURL, APIKey: svc.Key, KeyHint: svc.KeyHint, Models: models}))
		case "deepseek":
			out = append(out, openai.DeepSeek(o))
		default:
			out = append(out, openai.New(o))
		}
	}
	return out, nil
}

// models is the list of known models, the user's own in front.
func (s *sh) models() (*model.Models, error) {
	raw, err := os.ReadFile(s.cfg.Paths.Models)
	if errors.Is(err, fs.ErrNotExist) {
		return model.KnownModels(), nil
	}
	if err != nil {
		return nil, usage(fmt.Errorf("the list of models: %w", err))
	}
	models, err := model.KnownModels().With(raw)
	if err != nil {
		return nil, usage(fmt.Errorf("the list of models in %s: %w", s.cfg.Paths.Models, err))
	}
	return models, nil
}

// retry is when a failed model call is tried again. What the offline provider was told to
// fail at it would fail at again.
func (s *sh) retry(provider string) *loop.RetryPolicy {
	if provider == offline.Name {
		return nil
	}
	p := loop.DefaultRetry
	if s.cfg.MaxRetries >= 0 {
		p.MaxRetries = s.cfg.MaxRetries
	}
	for _, svc := range s.cfg.Services {
		if u, err := url.Parse(svc.BaseURL); svc.Name == provider && err == nil && loopback(u.Hostname()) {
			p.Refused = 1
		}
	}
	return &p
}

// fallback are the models that answer when the first fails.
func (s *sh) fallback() (out []loop.Route) {
	for _, r := range s.cfg.Fallback {
		out = append(out, loop.Route{Provider: r[0], Model: r[1]})
	}
	return out
}

// start loads the scripts and begins to watch them.
func (s *sh) start(ctx context.Context) (reload.Report, error) {
	cfg := reload.Config{Host: s.host.Host, Gate: s.gate, Ask: s.askGrown, Activated: s.activated, Notify: s.reloaded, Now: s.e.Now}
	if !s.f.safe {
		for _, dir := range []string{s.cfg.Paths.Scripts, s.projectScripts()} {
			if err := readable(dir); err != nil {
				return reload.Report{}, err
			}
		}
		if !s.f.only {
			cfg.Folders = []reload.Folder{
				{Layer: runtime.LayerUser, Dir: s.cfg.Paths.Scripts},
				{Layer: runtime.LayerProject, Dir: s.projectScripts()},
			}
		}
		for _, f := range s.f.scripts {
			path := f
			if !filepath.IsAbs(path) {
				path = filepath.Join(s.e.Dir, path)
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return reload.Report{}, usage(fmt.Errorf("--script: there is no file %s", f))
			}
			cfg.Files = append(cfg.Files, path)
		}
		if len(s.policies()) > 0 {
			only, err := scripts.Find(s.policies())
			if err != nil {
				return reload.Report{}, usage(fmt.Errorf("--policy: %w", err))
			}
			cfg.Folders = append(cfg.Folders, reload.Folder{Layer: runtime.LayerBundled, Dir: ".", FS: scripts.FS, Only: only})
		}
	}
	if err := s.host.Do(ctx, func() { loop.SessionDisposed.On(s.host.Host, s.noteUnused) }); err != nil {
		return reload.Report{}, err
	}
	s.manager = reload.New(cfg)
	r, err := s.manager.Start(ctx)
	if err != nil {
		return r, usage(err)
	}
	return r, nil
}

// stop ends everything: agents, scripts, processes.
func (s *sh) stop() {
	if s.manager != nil {
		s.manager.Close()
	}
	s.host.Stop()
	_ = s.bash.Close()
	for _, path := range s.unused {
		_ = os.Remove(path) // the next --continue and the lists are better without it
	}
}

// noteUnused notes the log of a session that ends without anything having been said in it.
func (s *sh) noteUnused(p loop.SessionPayload) error {
	for _, r := range p.Session.Records() {
		if !r.Ignorable {
			return nil
		}
	}
	if p.Session.Path() != "" && p.Session.Header().ParentSession == "" {
		s.unused = append(s.unused, p.Session.Path())
	}
	return nil
}

// gate holds back what scripts are not to run without an answer.
func (s *sh) gate(_ context.Context, cs []reload.Candidate) []reload.Verdict {
	s.noticeRevoked()
	out := make([]reload.Verdict, len(cs))
	for i, c := range cs {
		out[i] = s.verdict(c)
	}
	return out
}

// noticeRevoked looks whether the folder's trust was taken back from outside: what runs
// goes on, but nothing that is saved from now on comes in without an answer.
func (s *sh) noticeRevoked() {
	if !s.trusts.Revoked(s.projectScripts()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trusted {
		s.trusted = false
		s.revoked++
	}
}

// wasRevoked is how often the trust was taken back from outside.
func (s *sh) wasRevoked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

func (s *sh) isTrusted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trusted {
		return true
	}
	if !s.f.trust || s.revoked > 0 {
		fp, err := trust.Fingerprint(s.projectScripts())
		if err != nil || !s.trusts.Trusted(s.projectScripts(), fp) {
			return false
		}
	}
	s.trusted = true
	return true
}

// trustProject lets the project's scripts run, now and at later starts.
func (s *sh) trustProject() error {
	s.mu.Lock()
	s.trusted = true
	s.mu.Unlock()
	fp, err := trust.Fingerprint(s.projectScripts())
	if err != nil {
		return err
	}
	return s.trusts.Remember(s.projectScripts(), fp)
}

// renewTrust notes the content that was taken.
func (s *sh) renewTrust() error {
	fp, err := trust.Fingerprint(s.projectScripts())
	if err != nil {
		return err
	}
	return s.trusts.Renew(s.projectScripts(), fp)
}

// activated is called on the thread with every new generation.
func (s *sh) activated(old, new *runtime.Generation) {
	s.host.Greet()
	var names, gone []string
	for _, in := range new.Instances {
		names = append(names, in.ID)
	}
	for _, in := range old.Instances {
		if !new.Contains(in) {
			gone = append(gone, in.ID)
		}
	}
	loop.ScriptsLoaded.Fire(s.host.Host, runtime.Target{}, loop.ScriptsPayload{Generation: new.N, Names: names})
	if len(gone) > 0 {
		loop.ScriptsUnloaded.Fire(s.host.Host, runtime.Target{}, loop.ScriptsPayload{Generation: new.N, Names: gone})
	}
	s.host.RecordGeneration(new)
}

// anyHeld says whether a change waits for an answer: then what lies in the folder is not
// what was taken.
func (s *sh) anyHeld() bool {
	for _, sc := range s.manager.Status(context.Background()) {
		if sc.Held != nil {
			return true
		}
	}
	return false
}

// setOnReport says what is to happen when scripts have come or changed, or wait for an
// answer.
func (s *sh) setOnReport(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onReport = fn
}

// reloaded is told of every attempt, off the thread.
func (s *sh) reloaded(r reload.Report) {
	s.mu.Lock()
	onReport := s.onReport
	s.mu.Unlock()
	if onReport != nil {
		defer onReport()
	}
	if (r.Trigger == reload.TriggerSave || r.Trigger == reload.TriggerTake) && r.Old != r.New && s.isTrusted() && !s.anyHeld() {
		if err := s.renewTrust(); err != nil && !errors.Is(err, errNoFolder) {
			s.say(err.Error())
		}
	}
	for _, f := range r.Failures {
		err := f.Err
		_ = s.host.Do(context.Background(), func() {
			loop.ScriptsReloadFailed.Fire(s.host.Host, runtime.Target{}, loop.ReloadFailedPayload{Generation: r.New, Names: []string{f.ID}, Error: err})
		})
	}
	if r.Trigger != reload.TriggerStart {
		s.say(reportText(r))
	}
}

// reportText is a report in a line, and the source line of each failure.
func reportText(r reload.Report) string {
	text := r.String()
	for _, f := range r.Failures {
		if f.Source != "" {
			text += fmt.Sprintf("\n    %s:%d  %s", f.Pos.File, f.Pos.Line, f.Source)
		}
	}
	return render.Visible(text)
}

// session opens what the flags ask for: a new session, the newest of the folder, one by
// id, or a fork.
func (s *sh) session() (loop.Agent, *session.Report, error) {
	o := loop.CreateOptions{Options: loop.Options{Provider: s.cfg.Provider, Model: s.cfg.Model}, Header: session.Header{Cwd: s.dir}}
	n := 0
	for _, set := range []bool{s.f.cont, s.f.resume != "", s.f.fork != ""} {
		if set {
			n++
		}
	}
	if n > 1 {
		return nil, nil, usage(errors.New("--continue, --resume and --fork exclude each other"))
	}
	switch {
	case s.f.fork != "":
		a, err := s.forkSession(s.f.fork, o)
		return a, nil, err
	case s.f.cont:
		id, err := newestSession(s.store, s.dir)
		if err != nil {
			return nil, nil, err
		}
		return s.resumeSession(id, o)
	case s.f.resume != "":
		id, err := s.store.Resolve(s.f.resume)
		if err != nil {
			return nil, nil, usage(err)
		}
		return s.resumeSession(id, o)
	}
	var a loop.Agent
	var err error
	if derr := s.host.Do(context.Background(), func() { a, err = s.host.Create(o) }); derr != nil {
		err = derr
	}
	return a, nil, err
}

func (s *sh) resumeSession(id string, o loop.CreateOptions) (a loop.Agent, rep *session.Report, err error) {
	if derr := s.host.Do(context.Background(), func() { a, rep, err = s.host.Resume(id, o) }); derr != nil {
		err = derr
	}
	return a, rep, err
}

func (s *sh) forkSession(spec string, o loop.CreateOptions) (a loop.Agent, err error) {
	id, boundary, err := parseFork(spec)
	if err != nil {
		return nil, usage(err)
	}
	if id, err = s.store.Resolve(id); err != nil {
		return nil, err
	}
	log, err := s.store.ForkFrom(id, boundary, "")
	if err != nil {
		return nil, err
	}
	if derr := s.host.Do(context.Background(), func() { a, err = s.host.Adopt(log, o) }); derr != nil {
		err = derr
	}
	return a, err
}

// parseFork reads ID[@SEQ].
func parseFork(spec string) (id string, boundary int64, err error) {
	id, at, ok := strings.Cut(spec, "@")
	if !ok {
		return id, session.Last, nil
	}
	if _, err := fmt.Sscanf(at, "%d", &boundary); err != nil {
		return "", 0, fmt.Errorf("--fork: %q is no record number, want ID or ID@SEQ", at)
	}
	return id, boundary, nil
}
