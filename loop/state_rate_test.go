package loop_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
)

func TestAgentStateIsWrittenAtARate(t *testing.T) {
	inBoth(t, `ctx.command('fill', { run: (n, { agent }) => {
		let i = 0;
		try { for (; i < Number(n); i++) agent.state['k' + i % 2] = 'x'.repeat(1 << 18) + i; } catch (e) { return i + ' ' + e.message; }
		return String(i);
	} })`, `ctx.command('fill', { run = function(n, c)
		local i = 0
		local ok, e = pcall(function() while i < tonumber(n) do c.agent.state['k' .. i % 2] = string.rep('x', 2^18) .. i; i = i + 1 end end)
		if not ok then return i .. ' ' .. tostring(e.message or e) end
		return tostring(i)
	end })`, func(t *testing.T, file, code string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, modeltest.New(), withEngines)
			w.script(file, code)
			w.create()
			out, err := w.command("fill", "1000")
			if err != nil || !strings.HasPrefix(out, "63 ") || !strings.Contains(out, "has written more than 16 MiB in a short time, and may go on with 64 KiB a second") {
				t.Errorf("1,000 writes of 256 KiB: %q %v", out, err)
			}
			time.Sleep(time.Minute)
			if out, err := w.command("fill", "10"); out != "10" || err != nil {
				t.Errorf("a minute later: %q %v", out, err)
			}
			n := 0
			for _, r := range w.records() {
				if r.Type == loop.RecScriptState {
					n += len(r.Data)
				}
			}
			if n > 20<<20 {
				t.Errorf("the log has %d bytes of it", n)
			}
		})
	})
}
