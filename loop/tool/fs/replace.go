package fs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
)

// replace makes data the content of a file that now has the content was. real has no
// links left in it.
func replace(real string, was content, data []byte) error {
	if !was.there {
		if err := os.MkdirAll(filepath.Dir(real), 0o777); err != nil { // less the umask
			return fmt.Errorf("making its folder: %w", err)
		}
		return create(real, data)
	}
	// A new file under the old name needs only the folder to be writable; the file's own
	// mode has to be asked for.
	probe, err := os.OpenFile(real, os.O_WRONLY, 0)
	if errors.Is(err, iofs.ErrPermission) {
		return err
	}
	if err == nil {
		probe.Close()
	}
	if hardLinks(was.info) > 1 {
		return overwrite(real, was.data, data)
	}
	err = swap(real, was.info, data)
	if errors.Is(err, iofs.ErrPermission) {
		// The folder takes no new file, or the owner cannot be kept.
		return overwrite(real, was.data, data)
	}
	return err
}

// create makes a file that must not be there yet. A failure leaves none.
func create(real string, data []byte) error {
	f, err := os.OpenFile(real, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
	if err != nil {
		return err
	}
	if err := fill(f, data); err != nil {
		os.Remove(real)
		return err
	}
	return nil
}

// swap writes a new file beside the old one, gives it mode and owner of the old one, and
// then its name.
func swap(real string, info iofs.FileInfo, data []byte) (err error) {
	temp := filepath.Join(filepath.Dir(real), tempName())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	if err := fill(f, data); err != nil {
		return err
	}
	if err := keepOwner(temp, info); err != nil {
		return err
	}
	// After the owner, since a change of owner drops the set-id bits.
	if err := os.Chmod(temp, info.Mode()&(iofs.ModePerm|iofs.ModeSetuid|iofs.ModeSetgid|iofs.ModeSticky)); err != nil {
		return err
	}
	return os.Rename(temp, real)
}

// overwrite changes a file in place, where it must stay the same file. Should that fail
// halfway, the old content is put back as far as possible.
func overwrite(real string, old, data []byte) error {
	f, err := os.OpenFile(real, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err != nil {
		_, undo := f.WriteAt(old, 0)
		if undo == nil {
			undo = f.Truncate(int64(len(old)))
		}
		f.Close()
		if undo != nil {
			return fmt.Errorf("%w; and the old content could not be put back: %w", err, undo)
		}
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fill writes, syncs and closes a new file.
func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		// Else a power cut may leave the new name on an empty file.
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// tempName is hidden, and ends in nothing that a watcher or a build looks for.
func tempName() string {
	var id [6]byte
	rand.Read(id[:]) // never fails
	return ".dshsh-" + hex.EncodeToString(id[:]) + ".tmp"
}
