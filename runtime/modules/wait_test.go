//go:build unix

package modules_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gone waits until the process whose number is in a file has ended.
func (w *world) gone(name string) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		pid, err := strconv.Atoi(strings.TrimSpace(w.read(name)))
		if err == nil && syscall.Kill(pid, 0) != nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("process %d of %s is still there (%v)", pid, name, err)
		}
	}
}

// sleeper is a program that starts another one and waits for it.
func sleeper(w *world) {
	w.file("sleeper", "#!/bin/sh\nsleep 60 &\necho $! >child.new; mv child.new child\necho started\nif [ \"$1\" = wait ]; then wait; fi\n")
	if err := os.Chmod(filepath.Join(w.dir, "sleeper"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.cfg.Environ = []string{"PATH=/usr/bin:/bin"}
}

// TestProgramsEndWhole: at the time limit, and when they leave something behind.
func TestProgramsEndWhole(t *testing.T) {
	both(t, needs{"exec": {"$DIR/sleeper *"}}, sleeper, []string{`exec.run('$DIR/sleeper wait', K('timeoutMs', 1500))`},
		[]string{"! exec.run: sleeper timed out after 1.5s and was ended"}, func(w *world) { w.gone("child") })
	both(t, needs{"exec": {"$DIR/sleeper"}}, sleeper, []string{`exec.run('$DIR/sleeper')`},
		[]string{`{"code":0,"stdout":"started\n","stderr":""}`}, func(w *world) { w.gone("child") })
}

// TestLongOutput is cut, and the program runs to its end.
func TestLongOutput(t *testing.T) {
	both(t, needs{"exec": {"$DIR/much"}}, func(w *world) {
		w.file("much", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\nexit 3\n")
		if err := os.Chmod(filepath.Join(w.dir, "much"), 0o755); err != nil {
			w.t.Fatal(err)
		}
		w.cfg.Environ = []string{"PATH=/usr/bin:/bin"}
		// 1 MiB of it, whose middle the host leaves out when it is printed.
	}, []string{`exec.run('$DIR/much')`}, []string{`~x... (983,091 bytes left out) ...x`}, nil)
}

// TestUnloadEndsWhatIsUnderWay: a program, a request and their script's own waiting.
func TestUnloadEndsWhatIsUnderWay(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	for _, lang := range []string{"js", "lua"} {
		for _, call := range []string{`exec.run('$DIR/sleeper wait')`, `http.request('` + slow.URL + `')`} {
			w := newWorld(t)
			sleeper(w)
			n := needs{"exec": {w.dir + "/sleeper *"}, "http": {"127.0.0.1:" + slow.port()}}
			if err := w.load(lang, script(lang, n, []string{strings.ReplaceAll(call, "$DIR", w.dir)})); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(call, "http") {
				<-asked
			} else {
				for w.read("child") == "" || strings.Contains(w.read("child"), "no such file") {
					time.Sleep(5 * time.Millisecond)
				}
			}
			began := time.Now()
			if err := w.host.Do(context.Background(), func() { w.host.Activate(nil) }); err != nil {
				t.Fatal(err)
			}
			w.host.Close() // waits for what is under way
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s %s: it took %v to end", lang, call, took)
			}
			if strings.HasPrefix(call, "exec") {
				w.gone("child")
			}
		}
	}
}

// TestHeadersStayWithTheirServer: what was meant for one server does not go with a redirect
// to another one.
func TestHeadersStayWithTheirServer(t *testing.T) {
	two := serve(t, text("two"))
	one := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		if r.URL.Path == "/there" {
			fmt.Fprint(w, r.Header.Get("X-Api-Key"), r.Header.Get("User-Agent"))
			return
		}
		http.Redirect(w, r, two.URL, http.StatusTemporaryRedirect)
	})
	both(t, needs{"http": {"127.0.0.1:" + one.port(), "127.0.0.1:" + two.port()}}, nil, []string{
		`http.request(K('url', '` + one.URL + `', 'headers', K('X-Api-Key', 'k', 'Authorization', 'a', 'Accept', 'text/plain')))`,
		`http.request(K('url', '` + one.URL + `/here', 'headers', K('X-Api-Key', 'k')))`,
		`http.request(K('url', '` + one.URL + `', 'headers', K('Host', 'other')))`,
		`http.request(K('url', '` + one.URL + `', 'headers', K('X', 'a\r\nY: b')))`,
		`http.request(K('url', '` + one.URL + `', 'method', 'CONNECT'))`,
	}, []string{"~two", "~kdshsh", "! Host cannot be set", "! invalid header", "! unknown method"}, func(w *world) {
		h, _ := two.heads.Load("last")
		if got := h.(http.Header); got.Get("X-Api-Key")+got.Get("Authorization") != "" || got.Get("Accept") != "text/plain" {
			w.t.Errorf("the other server was sent %v", got)
		}
	})
}

// TestNotWhileLoading: modules are there at the top level, and do nothing.
func TestNotWhileLoading(t *testing.T) {
	for lang, code := range map[string]string{
		"js":  "ctx.need({ read: ['**'] });\nrequire('dshsh/fs').read('a');",
		"lua": "ctx.need({ read = { '**' } })\nrequire('dshsh/fs').read('a')",
	} {
		w := newWorld(t)
		w.file("a", secret)
		if err := w.load(lang, code); err == nil || !strings.Contains(err.Error(), "a."+lang+":2: fs.read: not while loading") {
			t.Errorf("%s: %v", lang, err)
		}
		if len(w.uses) > 0 {
			t.Errorf("%s: used: %v", lang, w.uses)
		}
	}
}

// TestNeedsAreDeclaredAtLoad: not later, and not for another script.
func TestNeedsAreDeclaredAtLoad(t *testing.T) {
	both(t, needs{"read": {"a"}}, func(w *world) { w.file("b", secret) }, []string{`ctx.need(K('read', L('b')))`, `fs.read('b')`},
		[]string{"! ctx.need: only while the script loads", "! not granted"}, nil)
}
