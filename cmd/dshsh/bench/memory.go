package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const guardJS = `// a policy of usual size
const risky = [/\brm\b/, /\bcurl\b/, /\bsudo\b/, /\bdd\b/];
ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call) => {
  for (const r of risky) if (r.test(call.arguments.command)) return { kind: 'ask', reason: String(r) };
});
ctx.on('tools/post-execute', async (call, next) => next());
`

const guardLua = `-- a policy of usual size
local risky = { 'rm', 'curl', 'sudo', 'dd' }
ctx.on('tools/pre-execute', { filter = { tool = 'bash' } }, function(call)
  for _, word in ipairs(risky) do
    if call.arguments.command:find(word, 1, true) then return { kind = 'ask', reason = word } end
  end
end)
ctx.on('tools/post-execute', function(call, next) return next() end)
`

// writeScripts puts n scripts into a folder, half of them in each language.
func writeScripts(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		name, text := fmt.Sprintf("s%03d.js", i), guardJS
		if i%2 == 1 {
			name, text = fmt.Sprintf("s%03d.lua", i), guardLua
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// memory is what programs hold resident: the shell at its idle prompt, and what a run
// needs at most.
func memory(b *bench) ([]figure, func(), error) {
	var figures []figure
	for _, n := range []int{0, 20, 100} {
		home := filepath.Join(b.dir, fmt.Sprint("home", n))
		if err := writeScripts(filepath.Join(home, "scripts"), n); err != nil {
			return nil, nil, err
		}
		figures = append(figures, figure{name: fmt.Sprintf("dshsh, idle, %d scripts", n), unit: "MiB", rounds: 3,
			sample: func() (float64, error) { return b.idle(home, 0) }})
	}
	most := func(args ...string) {
		figures = append(figures, figure{name: strings.Join(args, " ") + ", at most", unit: "MiB", rounds: 3, sample: func() (float64, error) { return b.peak("", args) }})
	}
	figures = append(figures, figure{name: "dshsh, idle, 20 scripts: processor in 10 s", unit: "ms", rounds: 1,
		sample: func() (float64, error) { return b.idle(filepath.Join(b.dir, "home20"), b.watch) }})
	most("dshsh", "run", "say hi")
	if _, err := exec.LookPath("node"); err == nil {
		most("node", "-e", "0")
	}
	return figures, nil, nil
}

// idle starts a shell that reads its lines from a pipe, has it answer one and reads from
// the system what it holds, or, where it is to be watched for a time, how many
// milliseconds of processor it then uses in 10 s.
func (b *bench) idle(home string, watch time.Duration) (mib float64, err error) {
	cmd, in, out, err := b.piped(home)
	if err != nil {
		return 0, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(in, "say ready-now\n"); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && strings.TrimSpace(lines.Text()) != "ready-now" {
	}
	mib, rerr := resident(cmd.Process.Pid, "VmRSS:")
	if rerr == nil && watch > 0 {
		mib, rerr = busy(cmd.Process.Pid, watch)
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		return 0, err
	}
	return mib, rerr
}

// resident reads a line of a process's status, in MiB.
func resident(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("%w: no /proc: %w", errors.ErrUnsupported, err)
	}
	_, rest, _ := strings.Cut(string(status), field)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0, fmt.Errorf("no %s of process %d", field, pid)
	}
	kb, err := strconv.ParseFloat(words[0], 64)
	return kb / 1024, err
}

// busy is how many milliseconds of processor time a process uses in a while, per 10 s.
func busy(pid int, while time.Duration) (float64, error) {
	before, err := ticks(pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(while)
	after, err := ticks(pid)
	return (after - before) * 10 * float64(10*time.Second) / float64(while), err
}

// ticks is the processor time of a process so far, in hundredths of a second.
func ticks(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("no times of process %d", pid)
	}
	user, err1 := strconv.ParseFloat(f[11], 64)
	system, err2 := strconv.ParseFloat(f[12], 64)
	return user + system, errors.Join(err1, err2)
}

// peakArg has this program run a command and print what reportPeak says: the system counts
// to a process what the one that started it held, so that has to be a small one.
const peakArg = "-peak"

// peak is the most that a program held resident, in MiB.
func (b *bench) peak(server string, args []string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := b.dshsh(server, args...) // for its folder and environment
	if args[0] == "dshsh" {
		args = append([]string{b.binary}, args[1:]...)
	}
	cmd.Path, cmd.Args, cmd.Err = self, append([]string{self, peakArg}, args...), nil
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return strconv.ParseFloat(text, 64)
	}
	return 0, errors.ErrUnsupported
}

// reportPeak runs a command and prints the most that it held resident, in MiB; nothing
// where the system does not say.
func reportPeak(args []string) {
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if mib := peakOf(cmd.ProcessState); mib > 0 {
		fmt.Println(mib)
	}
}
