package fs

import (
	"context"
	"fmt"
	"io"
)

// ReadHead reads the first bytes of an ordinary file, at most so many, and says how many it
// has in all. Anything else, as a folder, a pipe or a device, is refused and not waited for.
// Any goroutine.
func ReadHead(path string, most int) (head []byte, size int64, err error) {
	file, st, stop, err := open(context.Background(), path, path)
	if err != nil {
		return nil, 0, err
	}
	defer stop()
	head, err = io.ReadAll(io.LimitReader(file, int64(most)))
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return head, max(st.Size(), int64(len(head))), nil
}
