package shell

import (
	"os"
	"time"
)

// finishSlowly is finishReading where a pipe cannot be read without waiting: it gives the
// reader a moment to come to the end, and takes the pipe from it after that.
func finishSlowly(r *os.File, copied <-chan bool) (atEnd bool) {
	select {
	case end := <-copied:
		return end
	case <-time.After(200 * time.Millisecond):
		return false
	}
}
