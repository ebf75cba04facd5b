package runtime

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// A script may print this many lines at once, and this many a second; longer ones
	// count as several.
	lineBurst, lineRate = 1000, 100
	lineBytes           = 200
	// And so many of its failures are told of.
	failureBurst, failureRate = 200, 10
	// maxPrint is how many bytes of one text a script may print.
	maxPrint = 64 << 10
	// summaryAfter is how long what is left out is counted before a line says so.
	summaryAfter = 2 * time.Second
	// maxQuestions is how many of a script's questions may be open.
	maxQuestions = 5
)

// Allowance is how much of something may be had at once, and how much of it comes back a
// second. It is for one goroutine at a time; the fields are set before use.
type Allowance struct {
	Burst, Rate float64

	used float64
	at   time.Time // of used
}

// Take takes n, or nothing: false says that there is not so much. More than Burst counts
// as Burst.
func (a *Allowance) Take(n float64) bool {
	now := time.Now()
	if a.used > 0 {
		a.used = max(0, a.used-a.Rate*now.Sub(a.at).Seconds())
	}
	a.at = now
	if n = min(n, a.Burst); a.used+n > a.Burst {
		return false
	}
	a.used += n
	return true
}

// flood lets through what an allowance has room for, counts the rest, and has it told of
// in one go. Used on the thread.
type flood struct {
	allowance Allowance
	left      int         // out, not told of
	timer     *time.Timer // until it is told; nil = none is running
}

// pass says whether something may be told of now. If not, tell is called later, with how
// many were left out by then.
func (f *flood) pass(in *Instance, n float64, tell func(left string)) bool {
	if f.allowance.Take(n) {
		return true
	}
	if f.left++; f.timer == nil {
		f.timer = time.AfterFunc(summaryAfter, func() { in.host.Thread.Post(func() { f.flush(tell) }) })
	}
	return false
}

func (f *flood) flush(tell func(left string)) {
	if f.timer == nil {
		return
	}
	f.timer.Stop()
	left := f.left
	f.timer, f.left = nil, 0
	tell(thousands(left))
}

// Log is what ctx.log, console and print of a binding call: a line for the person.
func (in *Instance) Log(level, text string) {
	if in.sandbox != nil {
		in.host.log(in, level, text) // whoever runs it bounds it
		return
	}
	if text, ok := in.printable(text); ok {
		in.host.log(in, level, text)
	}
}

// printable bounds what a script prints.
func (in *Instance) printable(text string) (short string, ok bool) {
	text = shorten(text, maxPrint)
	cost := 1 + strings.Count(text, "\n") + len(text)/lineBytes
	return text, in.lines.pass(in, float64(cost), in.tellLines)
}

func (in *Instance) tellLines(left string) {
	in.host.log(in, "warn", left+" more lines left out")
}

// tellFailures tells of those that were left out, by the last of them.
func (in *Instance) tellFailures(left string) {
	f := in.lastFailure
	in.lastFailure = Failure{}
	f.Err = fmt.Errorf("%s more failures left out, the last: %w", left, f.Err)
	in.host.tell(func(o Observer) { o.Failed(f) })
}

// endFloods tells of what has been left out so far.
func (in *Instance) endFloods() {
	in.lines.flush(in.tellLines)
	in.failures.flush(in.tellFailures)
}

// mayAsk refuses a question where the person has several of the script to answer.
func (in *Instance) mayAsk(name string) error {
	if in.asking < maxQuestions {
		return nil
	}
	return fmt.Errorf("%s: %d questions of %s are open already: await their answers first", name, in.asking, in.ID)
}

// thousands is 12,345.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
