// Package repl is the prompt of dshsh.
//
// Its terminal layer is the Editor: it reads lines while output keeps coming, shows that
// output above the line being typed, and asks questions. All that goes to the terminal
// is written by one goroutine, fed by a bounded queue, so that whoever prints never waits
// for a slow terminal.
//
// The goroutines of an Editor with a terminal, and what they own:
//
//	keyReader.pump       reads the terminal
//	readline (two)       decodes keys (keyReader.Read), edits (Editor.handle)
//	Editor.readLines     submitted lines -> events, history file
//	Editor.deliver       events -> their channel
//	Editor.writeAll      the queue and the line -> the terminal
//	Editor.watchSignals  size, continue, end
//
// They share the Editor's state under its one lock, Editor.mu, which nobody holds while
// waiting for anything.
package repl
