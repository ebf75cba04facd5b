//go:build unix

package modules_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

const secret = "TOP-SECRET"

// attack is what a hostile script tries. Each call must fail with the part of the error
// that stands for it in want, or come to that very value; nothing may have happened.
type attack struct {
	name    string
	needs   needs
	prepare func(*world)
	calls   []string
	want    []string
	check   func(*world)
}

// outside is a folder beside the working folder.
func outside(w *world) string {
	dir := filepath.Join(filepath.Dir(w.dir), "outside")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// untouched checks that nothing outside was changed or made.
func untouched(w *world) {
	dir := filepath.Join(filepath.Dir(w.dir), "outside")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		w.t.Errorf("outside: %v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "secret")); string(b) != secret {
		w.t.Errorf("the file outside: %q, %v", b, err)
	}
	for _, l := range w.lines {
		if strings.Contains(l, secret) {
			w.t.Errorf("told: %s", l)
		}
	}
}

var fileAttacks = []attack{
	{name: "a link out of a granted folder", needs: needs{"read": {"docs/**"}, "write": {"docs/**"}}, prepare: func(w *world) {
		w.file("docs/x", "")
		w.link(filepath.Join(outside(w), "secret"), "docs/file")
		w.link(outside(w), "docs/folder")
		w.link(filepath.Join(outside(w), "none"), "docs/dangling")
		w.link("../../outside/none", "docs/relative")
		w.link("folder/secret", "docs/twice")
	}, calls: []string{`fs.read('docs/file')`, `fs.read('docs/folder/secret')`, `fs.read('docs/twice')`, `fs.list('docs/folder')`, `fs.stat('docs/file')`, `fs.exists('docs/file')`,
		`fs.write('docs/file', 'x')`, `fs.write('docs/folder/new', 'x')`, `fs.write('docs/dangling', 'x')`, `fs.append('docs/relative', 'x')`},
		want:  []string{"! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted"},
		check: untouched},
	{name: "a way out by dots", needs: needs{"read": {"docs/**"}, "write": {"docs/**"}}, prepare: func(w *world) { outside(w); w.file("docs/x", ""); w.file("secret", secret) },
		calls: []string{`fs.read('docs/../secret')`, `fs.read('docs/../../outside/secret')`, `fs.read('docs/./.././secret')`, `fs.write('docs/../../outside/new', 'x')`, `fs.read('../outside/secret')`},
		want:  []string{"! not granted", "! not granted", "! not granted", "! not granted", "! not granted"}, check: untouched},
	{name: "an absolute path", needs: needs{"read": {"**"}, "write": {"**"}}, prepare: func(w *world) { outside(w) },
		calls: []string{`fs.read('/etc/hostname')`, `fs.list('/')`, `fs.write('/dshsh-was-here', 'x')`, `fs.read('$DIR/../outside/secret')`},
		want:  []string{"! not granted", "! not granted", "! not granted", "! not granted"}, check: untouched},
	{name: "a zero byte in a path", needs: needs{"read": {"**"}}, prepare: func(w *world) { outside(w); w.file("a", "a") },
		calls: []string{`fs.read('a\0/../../outside/secret')`}, want: []string{"! zero byte"}, check: untouched},
	{name: "the process itself", needs: needs{"read": {"/**"}, "write": {"/**"}}, prepare: func(w *world) { outside(w) },
		calls: []string{`fs.read('/proc/self/environ')`, `fs.read('/proc/self/../self/environ')`, `fs.write('/proc/self/oom_score_adj', '0')`, `fs.read('/dev/fd/0')`, `fs.read('/dev/zero')`, `fs.list('/proc/self/fd')`},
		want:  []string{"! not granted", "! not granted", "! not granted", "! not granted", "! not granted", "! not granted"}, check: untouched},
	{name: "the root by way of the process", needs: needs{"read": {"/proc/**"}}, prepare: func(w *world) { outside(w) },
		calls: []string{`fs.read('/proc/self/root/etc/passwd')`, `fs.read('/proc/self/cwd/secret')`}, want: []string{"! not granted", "! not granted"}, check: untouched},
	{name: "a pipe that never answers", needs: needs{"read": {"**"}, "write": {"**"}}, prepare: func(w *world) {
		if err := syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}, calls: []string{`fs.read('pipe')`, `fs.write('pipe', 'x')`, `fs.append('pipe', 'x')`}, want: []string{"! not a plain file", "! not a plain file", "! not a plain file"}},
	{name: "a second name of a file outside", needs: needs{"write": {"out/**"}}, prepare: func(w *world) {
		w.file("out/x", "")
		if err := os.Link(filepath.Join(outside(w), "secret"), filepath.Join(w.dir, "out/hard")); err != nil {
			w.t.Fatal(err)
		}
	}, calls: []string{`fs.append('out/hard', 'x')`, `fs.write('out/hard', 'mine')`}, want: []string{"! hard link", "null"}, check: func(w *world) {
		untouched(w)
		if got := w.read("out/hard"); got != "mine" {
			w.t.Errorf("out/hard: %s", got)
		}
	}},
	{name: "a protected place under a broad grant", needs: needs{"read": {"/**"}, "write": {"/**"}}, prepare: func(w *world) {
		w.file("state/grants.json", "{}")
		w.link("state", "alias")
		w.cfg.Check = func(path string, write bool) error {
			if strings.HasPrefix(path, filepath.Join(w.dir, "state")) {
				return errors.New("it is protected")
			}
			return nil
		}
	}, calls: []string{`fs.write('state/grants.json', 'x')`, `fs.append('alias/grants.json', 'x')`, `fs.write('state/new', 'x')`, `fs.read('alias/../alias/grants.json')`},
		want: []string{"! it is protected", "! it is protected", "! it is protected", "! it is protected"}, check: func(w *world) {
			if got := w.read("state/grants.json"); got != "{}" || w.read("state/new") == "x" {
				w.t.Errorf("written: %s", got)
			}
		}},
	{name: "files too large", needs: needs{"read": {"**"}, "write": {"**"}}, prepare: func(w *world) {
		w.file("big", "")
		if err := os.Truncate(filepath.Join(w.dir, "big"), 1<<30); err != nil {
			w.t.Fatal(err)
		}
	}, calls: []string{`fs.read('big')`, `fs.append('big', 'x')`}, want: []string{"! at most 10485760 are read", "! more than 10485760 bytes"}},
	{name: "a wider pattern than was granted", needs: needs{"read": {"docs/*.txt"}}, prepare: func(w *world) {
		w.file("docs/a.txt", "ok")
		w.file("docs/deep/a.txt", secret)
		w.file("docs/a.txt.key", secret)
		w.file("docsx/a.txt", secret)
		outside(w)
	}, calls: []string{`fs.read('docs/a.txt')`, `fs.read('docs/deep/a.txt')`, `fs.read('docs/a.txt.key')`, `fs.read('docsx/a.txt')`, `fs.list('docs')`},
		want: []string{"ok", "! not granted", "! not granted", "! not granted", "! not granted"}, check: untouched},
}

func TestHostileFiles(t *testing.T) {
	for _, a := range fileAttacks {
		t.Run(a.name, func(t *testing.T) { both(t, a.needs, a.prepare, a.calls, a.want, a.check) })
	}
}

// TestHostileSwaps: what has been judged becomes a link before it is opened. The check of
// protected places, which comes in between, is when that happens here.
func TestHostileSwaps(t *testing.T) {
	for _, c := range []struct{ call, swap string }{
		{`fs.read('d/secret')`, "d"}, {`fs.read('d/secret')`, "d/secret"}, {`fs.list('d')`, "d"}, {`fs.stat('d/secret')`, "d"},
		{`fs.write('d/new', 'x')`, "d"}, {`fs.write('d/secret', 'x')`, "d"}, {`fs.write('d/secret', 'x')`, "d/secret"}, {`fs.write('d/e/new', 'x')`, "d"},
		{`fs.append('d/secret', 'x')`, "d"}, {`fs.append('d/secret', 'x')`, "d/secret"}, {`fs.append('d/new', 'x')`, "d"},
	} {
		t.Run(c.call+" of "+c.swap, func(t *testing.T) {
			both(t, needs{"read": {"d/**"}, "write": {"d/**"}}, func(w *world) {
				w.file("d/secret", "mine")
				to := outside(w)
				if c.swap != "d" {
					to = filepath.Join(to, "secret")
				}
				swapped := false
				w.cfg.Check = func(string, bool) error {
					if swapped {
						return nil
					}
					swapped = true
					at := filepath.Join(w.dir, c.swap)
					return errors.Join(os.Rename(at, filepath.Join(w.dir, "spare")), os.Symlink(to, at))
				}
			}, []string{c.call}, []string{"! it was changed while it was being opened"}, untouched)
		})
	}
}

var execAttacks = []attack{
	{name: "a program by PATH", needs: needs{"exec": {"/bin/echo *"}}, prepare: func(w *world) { w.file("echo", "#!/bin/sh\n"); w.cfg.Environ = []string{"PATH=" + w.dir} },
		calls: []string{`exec.run('echo hi')`, `exec.run('./echo hi')`, `exec.run('/bin/../bin/echo hi')`, `exec.run('//bin/echo hi')`},
		want:  []string{"! PATH is not searched", "! PATH is not searched", "! PATH is not searched", "! PATH is not searched"}},
	{name: "words of a shell", needs: needs{"exec": {"/bin/echo status *"}}, calls: []string{`exec.run('/bin/echo status; touch made')`, `exec.run('/bin/echo status $(touch made)')`,
		`exec.run(L('/bin/echo', 'status', ';', 'touch', 'made', '$(touch made)'))`, `exec.run(L('/bin/echo', 'status;', 'touch made'))`, `exec.run(L('/bin/echo', 'other'))`, `exec.run('/bin/echo')`},
		want: []string{"! there is no shell", "! there is no shell", `{"code":0,"stdout":"status ; touch made $(touch made)\n","stderr":""}`, "! not granted", "! not granted", "! not granted"},
		check: func(w *world) {
			if _, err := os.Lstat(filepath.Join(w.dir, "made")); err == nil {
				w.t.Error("a shell ran")
			}
		}},
	{name: "more arguments than were granted", needs: needs{"exec": {"/bin/echo a", "/bin/echo b=* c"}}, calls: []string{`exec.run('/bin/echo a')`, `exec.run('/bin/echo a b')`, `exec.run(L('/bin/echo', 'b=1 2', 'c'))`, `exec.run(L('/bin/echo', 'b=1', 'x', 'c'))`, `exec.run(L('/bin/echo', 'a b'))`},
		want: []string{`{"code":0,"stdout":"a\n","stderr":""}`, "! not granted", `{"code":0,"stdout":"b=1 2 c\n","stderr":""}`, "! not granted", "! not granted"}},
	{name: "a granted program replaced by a link", needs: needs{"exec": {"$DIR/tool *", "/bin/ln *"}}, prepare: func(w *world) {
		outside(w)
		w.file("tool", "#!/bin/sh\necho fine\n")
		if err := os.Chmod(filepath.Join(w.dir, "tool"), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}, calls: []string{`exec.run('$DIR/tool')`, `exec.run('/bin/ln -sf /bin/cat $DIR/tool')`, `exec.run('$DIR/tool $DIR/../outside/secret')`},
		want: []string{`{"code":0,"stdout":"fine\n","stderr":""}`, `{"code":0,"stdout":"","stderr":""}`, "! not granted"}, check: untouched},
	{name: "another name of a granted program", needs: needs{"exec": {"$DIR/one *"}}, prepare: func(w *world) {
		w.file("many", "#!/bin/sh\necho $0\n")
		if err := os.Chmod(filepath.Join(w.dir, "many"), 0o755); err != nil {
			w.t.Fatal(err)
		}
		w.link("many", "one")
		w.link("many", "two")
	}, calls: []string{`exec.run('$DIR/two')`, `exec.run('$DIR/many')`}, want: []string{"! not granted", "! not granted"}},
	{name: "the environment of the shell", needs: needs{"exec": {"/usr/bin/env"}}, prepare: func(w *world) { w.t.Setenv("DSHSH_TEST_KEY", secret); outside(w) },
		calls: []string{`exec.run('/usr/bin/env')`}, want: []string{`{"code":0,"stdout":"","stderr":""}`}, check: untouched},
	{name: "another folder", needs: needs{"exec": {"/bin/cat *"}}, prepare: func(w *world) { w.link(outside(w), "in") },
		calls: []string{`exec.run('/bin/cat secret', K('cwd', 'in'))`, `exec.run('/bin/cat secret', K('cwd', '../outside'))`, `exec.run('/bin/cat', K('stdin', 'in', 'cwd', '.'))`, `exec.run('/bin/cat', K('cdw', '/'))`},
		want:  []string{"! outside of the project's folder", "! outside of the project's folder", `{"code":0,"stdout":"in","stderr":""}`, `! unknown field "cdw" (did you mean "cwd"?)`}, check: untouched},
}

func TestHostilePrograms(t *testing.T) {
	for _, a := range execAttacks {
		t.Run(a.name, func(t *testing.T) {
			if _, err := os.Stat("/bin/echo"); err != nil {
				t.Skip("no /bin/echo here")
			}
			both(t, a.needs, a.prepare, a.calls, a.want, a.check)
		})
	}
}

// hits counts the requests that a server got.
type hits struct {
	*httptest.Server
	n     atomic.Int32
	heads sync.Map // what it was sent
}

func serve(t *testing.T, answer http.HandlerFunc) *hits {
	h := &hits{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.n.Add(1)
		h.heads.Store("last", r.Header.Clone())
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hits) port() string { _, p, _ := net.SplitHostPort(h.Listener.Addr().String()); return p }

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

func TestHostileRequests(t *testing.T) {
	victim := serve(t, text(secret))
	port := victim.port()
	redirect := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/other": victim.URL, "/meta": "http://169.254.169.254/latest", "/file": "file:///etc/passwd", "/name": "http://localhost:" + port, "/loop": "/loop"}[r.URL.Path]
		http.Redirect(w, r, to, http.StatusFound)
	})
	long := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 11 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	proxy := serve(t, text("proxied"))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	any := needs{"http": {"*:" + port, "*"}}
	own := needs{"http": {"127.0.0.1:" + redirect.port()}}
	for _, a := range []attack{
		{name: "an address that a pattern covers", needs: any,
			calls: []string{`http.request('http://127.0.0.1:` + port + `')`, `http.request('http://[::1]:` + port + `')`, `http.request('http://[::ffff:127.0.0.1]:` + port + `')`, `http.request('http://0.0.0.0:` + port + `')`},
			want:  []string{"! no public address", "! no public address", "! no public address", "! no public address"}},
		{name: "a name that leads to this machine", needs: any, calls: []string{`http.request('http://localhost:` + port + `')`, `http.request('http://LOCALHOST:` + port + `')`}, want: []string{"! no public address", "! no public address"}},
		{name: "an address written otherwise", needs: any, calls: []string{`http.request('http://2130706433:` + port + `')`, `http.request('http://127.1:` + port + `')`}, want: []string{"! ", "! "}},
		{name: "a host that was not granted", needs: needs{"http": {"api.example.com"}}, calls: []string{`http.request('http://evil.example.com')`, `http.request('https://api.example.com.evil.com')`, `http.request('http://api.example.com@127.0.0.1:` + port + `')`,
			`http.request('http://api.example.com:` + port + `')`, `http.request('http://xapi.example.com')`}, want: []string{"! not granted", "! not granted", "! name or password", "! not granted", "! not granted"}},
		{name: "a redirect to what was not granted", needs: own, calls: []string{`http.request('` + redirect.URL + `/other')`, `http.request('` + redirect.URL + `/meta')`, `http.request('` + redirect.URL + `/file')`, `http.request('` + redirect.URL + `/name')`, `http.request('` + redirect.URL + `/loop')`},
			want: []string{"! redirected: not granted", "! redirected: not granted", "! must begin with http", "! redirected: not granted", "! more than 10 redirects"}},
		{name: "a redirect to a private address under a pattern", needs: needs{"http": {"127.0.0.1:" + redirect.port(), "*:" + port, "*"}}, calls: []string{`http.request('` + redirect.URL + `/other')`, `http.request('` + redirect.URL + `/meta')`, `http.request('` + redirect.URL + `/name')`},
			want: []string{"! no public address", "! no public address", "! no public address"}},
		{name: "other schemes", needs: any, calls: []string{`http.request('file:///etc/passwd')`, `http.request('ftp://example.com')`, `http.request('//example.com')`, `http.request('http:///x')`}, want: []string{"! must begin with http", "! must begin with http", "! must begin with http", "! is not a host"}},
		{name: "an endless answer", needs: needs{"http": {"127.0.0.1:" + long.port()}}, calls: []string{`http.request('` + long.URL + `')`}, want: []string{"! more than 10485760 bytes"}},
		{name: "a line end in a URL", needs: needs{"http": {"*"}}, calls: []string{`http.request('http://exa\tmple.com')`}, want: []string{"! cannot be read"}},
	} {
		t.Run(a.name, func(t *testing.T) {
			both(t, a.needs, nil, a.calls, a.want, func(w *world) {
				if n := victim.n.Load() + proxy.n.Load(); n != 0 {
					w.t.Errorf("%d requests came through", n)
					victim.n.Store(0)
					proxy.n.Store(0)
				}
			})
		})
	}
}
