package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func numbered(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()
}

func TestBoundKeepsWhatFits(t *testing.T) {
	for _, s := range []string{"", "x", "x\n", "a\nb", strings.Repeat("é\n", 5000)} {
		b := Bound([]byte(s), Limits{}, nil)
		if b.Text != s || b.Truncated || b.Bytes != int64(len(s)) {
			t.Errorf("%.20q became %.60q, truncated %v", s, b.Text, b.Truncated)
		}
	}
	if b := Bound([]byte("a\nb"), Limits{}, nil); b.Lines != 2 {
		t.Errorf("%d lines", b.Lines)
	}
}

func TestBoundKeepsHeadAndTailAndSavesTheRest(t *testing.T) {
	for _, n := range []int{10_000, 200_000} { // within memory, and beyond it
		dir := filepath.Join(t.TempDir(), "files")
		whole := numbered(n)
		b := Bound(whole, Limits{}, SpillFile(dir, "call/1"))
		if !b.Truncated || len(b.Text) > 32<<10 || b.Lines != int64(n) || b.Bytes != int64(len(whole)) {
			t.Fatalf("%d lines: truncated %v, text %d, lines %d", n, b.Truncated, len(b.Text), b.Lines)
		}
		if !strings.HasPrefix(b.Text, "line 0\nline 1\n") || !strings.HasSuffix(b.Text, fmt.Sprintf("line %d\n", n-1)) {
			t.Errorf("ends are lost: %.20q ... %q", b.Text, b.Text[len(b.Text)-20:])
		}
		saved, err := os.ReadFile(b.Path)
		if err != nil || !bytes.Equal(saved, whole) {
			t.Errorf("saved %d bytes of %d: %v", len(saved), len(whole), err)
		}
		if !strings.Contains(b.Text, "the whole is in "+b.Path) {
			t.Error("the mark does not say where the whole is")
		}
		st, _ := os.Stat(b.Path)
		if st.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", st.Mode())
		}
		checkCount(t, whole, b)
	}
}

var midMark = regexp.MustCompile(`(?m)^\[\.\.\. (\d+) bytes, (\d+) lines cut here; .* \.\.\.\]\n`)
var lineMark = regexp.MustCompile(`\[\.\.\. (\d+) bytes cut \.\.\.\]`)

// checkCount adds up what is shown and what the marks say was cut. The newline before a
// mark may be the output's own or the mark's, so either may be right.
func checkCount(t *testing.T, whole []byte, b Bounded) {
	t.Helper()
	shown, cut := b.Text, 0
	for _, m := range lineMark.FindAllStringSubmatch(shown, -1) {
		n, _ := strconv.Atoi(m[1])
		cut += n
	}
	shown = lineMark.ReplaceAllString(shown, "")
	lines := 0
	if m := midMark.FindStringSubmatch(shown); m != nil {
		n, _ := strconv.Atoi(m[1])
		cut += n
		lines, _ = strconv.Atoi(m[2])
		shown = midMark.ReplaceAllString(shown, "")
	} else {
		shown = regexp.MustCompile(`(?m)^\[lines of more than .*\]\n\z`).ReplaceAllString(shown, "")
	}
	bytesOff := len(whole) - cut - len(shown)
	linesOff := bytes.Count(whole, []byte("\n")) - lines - strings.Count(shown, "\n")
	if bytesOff != linesOff || bytesOff != 0 && bytesOff != -1 {
		t.Errorf("shown %d bytes and cut %d are not %d; lines are off by %d", len(shown), cut, len(whole), linesOff)
	}
}

func TestR093_OneLongLineIsCut(t *testing.T) {
	for _, n := range []int{3 << 10, 100 << 10, 5 << 20} {
		dir := t.TempDir()
		whole := bytes.Repeat([]byte("0123456789"), n/10)
		b := Bound(whole, Limits{}, SpillFile(dir, "c"))
		if !b.Truncated || len(b.Text) > 32<<10 {
			t.Fatalf("%d bytes: truncated %v, text %d", n, b.Truncated, len(b.Text))
		}
		if !strings.HasPrefix(b.Text, "0123456789") || b.Path == "" {
			t.Errorf("%d bytes: %.40q, path %q", n, b.Text, b.Path)
		}
		checkCount(t, whole, b)
	}
}

func TestBoundCutsLongLinesAmongShortOnes(t *testing.T) {
	whole := []byte("first\n" + strings.Repeat("é", 5000) + "\nlast\n")
	b := Bound(whole, Limits{}, SpillFile(t.TempDir(), "c"))
	if !b.Truncated || !utf8.ValidString(b.Text) || strings.Contains(b.Text, "\uFFFD") {
		t.Fatalf("%v %q", b.Truncated, b.Text)
	}
	if !strings.HasPrefix(b.Text, "first\né") || !strings.Contains(b.Text, "é\nlast\n[lines of more than 2048 bytes were cut; the whole is in ") {
		t.Errorf("%q", b.Text)
	}
	checkCount(t, whole, b)
}

func TestBoundAnyPieces(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 60 {
		var whole []byte
		for len(whole) < 1+rng.Intn(40<<10) {
			line := make([]byte, rng.Intn(1+rng.Intn(3000)))
			for i := range line {
				line[i] = "abcdefghij"[rng.Intn(10)]
			}
			whole = append(append(whole, line...), '\n')
		}
		if rng.Intn(2) == 0 {
			whole = whole[:len(whole)-1]
		}
		dir := t.TempDir()
		o := NewOutput(Limits{Bytes: 2 << 10, LineBytes: 300}, SpillFile(dir, "c"))
		for rest := whole; len(rest) > 0; {
			n := 1 + rng.Intn(min(len(rest), 5000))
			o.Write(rest[:n])
			rest = rest[n:]
		}
		b := o.Finish()
		if len(b.Text) > 2<<10 && !strings.Contains(b.Text, dir) {
			t.Fatalf("text of %d bytes", len(b.Text))
		}
		if !b.Truncated && b.Text != string(whole) {
			t.Fatal("changed without being truncated")
		}
		if b.Truncated {
			checkCount(t, whole, b)
			if saved, err := os.ReadFile(b.Path); err != nil || !bytes.Equal(saved, whole) {
				t.Fatalf("saved %d of %d: %v", len(saved), len(whole), err)
			}
		}
	}
}

func TestBoundReplacesInvalidUTF8(t *testing.T) {
	b := Bound([]byte("caf\xe9 \xff\xfe ok"), Limits{}, nil)
	if b.Text != "caf\uFFFD \uFFFD ok" || b.Truncated {
		t.Errorf("%q %v", b.Text, b.Truncated)
	}
	noise := make([]byte, 1<<20)
	rand.New(rand.NewSource(2)).Read(noise)
	b = Bound(noise, Limits{}, nil)
	if len(b.Text) > 32<<10 || !utf8.ValidString(b.Text) || !strings.Contains(b.Text, "the whole was not kept") {
		t.Errorf("noise: %d bytes, valid %v", len(b.Text), utf8.ValidString(b.Text))
	}
}

func TestOutputMemoryIsBounded(t *testing.T) {
	o := NewOutput(Limits{}, nil)
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for range 1000 {
		o.Write(piece)
	}
	if n := cap(o.head) + cap(o.tail); n > 2<<20 {
		t.Errorf("%d bytes held", n)
	}
}

type fullDisk struct{ left int }

func (f *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}
func (f *fullDisk) Close() error { return nil }

func TestOutputSurvivesAFullDisk(t *testing.T) {
	b := Bound(numbered(200_000), Limits{}, func() (io.WriteCloser, string, error) { return &fullDisk{left: 1000}, "/f", nil })
	if !strings.Contains(b.Text, "the first 1000 bytes are in /f, the rest could not be saved: no space left") {
		t.Error(midMark.FindString(b.Text))
	}
	b = Bound(numbered(200_000), Limits{}, func() (io.WriteCloser, string, error) { return nil, "", errors.New("no such folder") })
	if !strings.Contains(b.Text, "the whole could not be saved: no such folder") || b.Path != "" {
		t.Error(midMark.FindString(b.Text))
	}
	b = Bound(numbered(200_000), Limits{FileBytes: 5000}, SpillFile(t.TempDir(), "c"))
	if !strings.Contains(b.Text, "the first 5000 bytes are in ") {
		t.Error(midMark.FindString(b.Text))
	}
}

func TestSpillFileNames(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"______etc_passwd.txt", "______etc_passwd-2.txt"} {
		f, path, err := SpillFile(dir, "../../etc/passwd")()
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if path != filepath.Join(dir, want) {
			t.Errorf("%d: %s", i, path)
		}
	}
	if SpillFile("", "c") != nil {
		t.Error("a file without a folder")
	}
}
