//go:build !unix

package repl

import "os"

// openLocked opens the history file. There is no lock here: shells that end a line at the
// same moment may lose one.
func openLocked(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
