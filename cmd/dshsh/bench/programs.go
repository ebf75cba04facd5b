package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dshsh/loop/model/modeltest"
)

// programs are runs from start to exit.
func programs(b *bench) ([]figure, func(), error) {
	s, err := modeltest.StartServer()
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "small.txt"), []byte("a small file\n"), 0o644); err != nil {
		return nil, s.Close, err
	}
	s.Otherwise(modeltest.WireFunc(answer))
	ask := func(prompt string) func() (float64, error) {
		return func() (float64, error) {
			return wall(b.dshsh(s.URL, asking(prompt)...))
		}
	}
	// perUnit is what each of n more units of work costs a run.
	perUnit := func(short, long string, n int, unit time.Duration) func() (float64, error) {
		return func() (float64, error) {
			few, err := ask(short)()
			if err != nil {
				return 0, err
			}
			many, err := ask(long)()
			return (many - few) * float64(time.Millisecond/unit) / float64(n), err
		}
	}
	figures := []figure{
		{name: "dshsh version", unit: "ms", sample: func() (float64, error) { return wall(b.dshsh(s.URL, "version")) }},
		{name: "dshsh run 'say hi', offline", unit: "ms", sample: func() (float64, error) { return wall(b.dshsh("", "run", "say hi")) }},
		{name: "dshsh run, one word from a server", unit: "ms", sample: ask("word")},
		{name: "one tool step more (read of a small file)", unit: "ms", sample: perUnit("word", fmt.Sprint("steps ", b.steps), b.steps, time.Millisecond)},
		{name: "one tool step more (bash true)", unit: "ms", sample: perUnit("word", fmt.Sprint("bash ", b.steps), b.steps, time.Millisecond)},
		{name: "of which the server, asked alone", unit: "ms", sample: func() (float64, error) { return serverAlone(s.URL) }, rounds: 3},
		{name: "one streamed chunk more", unit: "us", sample: perUnit("word", fmt.Sprint("chunks ", b.chunks), b.chunks, time.Microsecond)},
	}
	for _, n := range []int{0, 20} {
		home := filepath.Join(b.dir, fmt.Sprint("home", n))
		if err := writeScripts(filepath.Join(home, "scripts"), n); err != nil {
			return nil, s.Close, err
		}
		figures = append(figures, figure{name: fmt.Sprintf("dshsh, from start to its prompt, %d scripts", n), unit: "ms", sample: func() (float64, error) { return b.opening(home) }})
	}
	for _, f := range []struct{ name, prompt string }{
		{"one word", "word"}, {fmt.Sprintf("%d chunks", b.chunks), fmt.Sprint("chunks ", b.chunks)},
		{fmt.Sprintf("%d steps of bash true", b.steps), fmt.Sprint("bash ", b.steps)}, {fmt.Sprintf("%d steps of read", b.steps), fmt.Sprint("steps ", b.steps)},
	} {
		figures = append(figures,
			figure{name: "whole run: " + f.name, unit: "ms", sample: ask(f.prompt), rounds: 5},
			figure{name: "  which holds at most", unit: "MiB", rounds: 3, sample: func() (float64, error) { return b.peak(s.URL, append([]string{"dshsh"}, asking(f.prompt)...)) }})
	}
	return append(figures, peers("start of ")...), s.Close, nil
}

// asking are the arguments of a run that asks the server.
func asking(prompt string) []string {
	return []string{"run", "--provider", "openai", "--model", "m", "--approve", "all", prompt}
}

// opening is how long a shell takes from its start to the first line that it shows.
func (b *bench) opening(home string) (float64, error) {
	cmd, in, out, err := b.piped(home)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	one := make([]byte, 1)
	if _, err := out.Read(one); err != nil {
		return 0, err
	}
	took := ms(time.Since(began))
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	return took, cmd.Wait()
}

// peers are other programs that hooks are written for, doing nothing.
func peers(what string) []figure {
	var out []figure
	for _, p := range [][]string{{"sh", "-c", "true"}, {"node", "-e", "0"}} {
		if _, err := exec.LookPath(p[0]); err == nil {
			out = append(out, figure{name: what + strings.Join(p, " "), unit: "ms",
				sample: func() (float64, error) { return wall(exec.Command(p[0], p[1:]...)) }})
		}
	}
	return out
}

// answer is the server's reply: to "word" one word, to "chunks N" so many, to "steps N" and
// "bash N" a tool call until there were N results.
func answer(r *modeltest.Recorded) modeltest.Wire {
	messages, _ := r.JSON()["messages"].([]any)
	kind, n, results := "word", 0, 0
	for _, m := range messages {
		m, _ := m.(map[string]any)
		switch m["role"] {
		case "tool":
			results++
		case "user":
			var count string
			text, _ := m["content"].(string)
			kind, count, _ = strings.Cut(text, " ")
			n, _ = strconv.Atoi(count)
		}
	}
	switch {
	case kind == "bash" && results < n:
		return modeltest.WireTool(fmt.Sprint("c", results), "bash", `{"command":"true"}`)
	case kind == "steps" && results < n:
		return modeltest.WireTool(fmt.Sprint("c", results), "read", `{"path":"small.txt"}`)
	case kind == "chunks":
		return modeltest.WireText(strings.Repeat("word ", n))
	}
	return modeltest.WireText("done")
}

// serverAlone asks what a tool step asks, without dshsh.
func serverAlone(url string) (float64, error) {
	const times = 50
	body := []byte(`{"stream":true,"messages":[{"role":"user","content":"steps 9"}]}`)
	began := time.Now()
	for range times {
		resp, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return 0, err
		}
	}
	return ms(time.Since(began)) / times, nil
}

// dshsh is the program in a folder and with a home of the bench's own.
func (b *bench) dshsh(server string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.binary, args...)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "DSHSH_HOME=" + filepath.Join(b.dir, "home"), "TERM=dumb"}
	if server != "" {
		cmd.Env = append(cmd.Env, "OPENAI_BASE_URL="+server, "OPENAI_API_KEY=none")
	}
	return cmd
}

// piped is a shell of a home, to be started, that reads its lines from in.
func (b *bench) piped(home string) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser, err error) {
	cmd = b.dshsh("")
	cmd.Env = append(cmd.Env, "DSHSH_HOME="+home)
	if in, err = cmd.StdinPipe(); err == nil {
		out, err = cmd.StdoutPipe()
	}
	return cmd, in, out, err
}

// wall runs a command and gives its milliseconds.
func wall(cmd *exec.Cmd) (float64, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.Bytes())
	}
	return ms(time.Since(began)), nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
