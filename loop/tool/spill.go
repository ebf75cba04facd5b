package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SpillFile returns what makes the file for the whole output of one call: dir/CALL.txt, or
// dir/CALL-2.txt and so on when that is there already. The folder is made when it is
// missing; both are for the user's eyes alone. A dir of "" gives nil.
func SpillFile(dir, callID string) OpenFile {
	if dir == "" {
		return nil
	}
	return func() (io.WriteCloser, string, error) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, "", fmt.Errorf("making the folder for outputs: %w", err)
		}
		base := spillName(callID)
		for n := 1; n <= 1000; n++ {
			name := base + ".txt"
			if n > 1 {
				name = fmt.Sprintf("%s-%d.txt", base, n)
			}
			path := filepath.Join(dir, name)
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				return f, path, nil
			}
			if !errors.Is(err, fs.ErrExist) {
				return nil, "", fmt.Errorf("making a file for the output: %w", err)
			}
		}
		return nil, "", fmt.Errorf("making a file for the output: %s has too many for call %s", dir, base)
	}
}

// spillName makes a file name of a call's id, which a model service made up and may be
// anything.
func spillName(callID string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, cutMessage(callID, 64))
	if name == "" {
		return "call"
	}
	return name
}
