package repl

import (
	"fmt"
	"strings"
)

// Bounds of what waits to be written, in bytes. Without a terminal the reader is a
// program, which may come late but must not lose lines, so the bound is only there to
// keep the process alive.
const (
	queueTerminal = 4 << 20
	queuePlain    = 256 << 20
)

// batch is how much is written at once, so that keys are answered in between.
const batch = 64 << 10

// queue holds whole lines that wait to be written, at most max bytes of them. When it is
// full the oldest are dropped and counted: what a person waits for is the newest, and the
// session log has everything. Editor.mu guards it.
type queue struct {
	max     int
	blocks  []string
	bytes   int
	dropped int // lines that were dropped before blocks[0] and not yet told
}

// add appends a block of whole lines. It costs no more than the blocks it drops.
func (q *queue) add(block string) {
	if len(block) > q.max { // alone too much: its end is kept
		cut := len(block) - q.max
		if nl := strings.IndexByte(block[cut-1:], '\n'); nl >= 0 {
			cut += nl
		}
		gone := block[:cut]
		block = block[cut:]
		q.dropAll()
		q.dropped += strings.Count(gone, "\n")
	}
	for q.bytes+len(block) > q.max && len(q.blocks) > 0 {
		q.drop()
	}
	if block != "" {
		q.blocks = append(q.blocks, block)
		q.bytes += len(block)
	}
}

func (q *queue) drop() {
	q.dropped += strings.Count(q.blocks[0], "\n")
	q.pop()
}

func (q *queue) dropAll() {
	for len(q.blocks) > 0 {
		q.drop()
	}
}

func (q *queue) pop() string {
	b := q.blocks[0]
	q.blocks[0] = ""
	q.blocks = q.blocks[1:]
	q.bytes -= len(b)
	if len(q.blocks) == 0 {
		q.blocks = nil
	}
	return b
}

func (q *queue) empty() bool { return len(q.blocks) == 0 && q.dropped == 0 }

// take removes and returns about n bytes of lines, with what was dropped before them said
// first.
func (q *queue) take(n int) string {
	if q.empty() {
		return ""
	}
	var b strings.Builder
	if q.dropped > 0 {
		lines := "lines"
		if q.dropped == 1 {
			lines = "line"
		}
		fmt.Fprintf(&b, "[%d %s dropped: terminal too slow]\n", q.dropped, lines)
		q.dropped = 0
	}
	for len(q.blocks) > 0 && (b.Len() == 0 || b.Len()+len(q.blocks[0]) <= n) {
		if len(q.blocks[0]) > n {
			// A block may be megabytes: its first lines now.
			if nl := strings.LastIndexByte(q.blocks[0][:n], '\n'); nl >= 0 {
				b.WriteString(q.blocks[0][:nl+1])
				q.bytes -= nl + 1
				q.blocks[0] = q.blocks[0][nl+1:]
				break
			}
		}
		b.WriteString(q.pop())
	}
	return b.String()
}
