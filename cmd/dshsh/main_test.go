package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"dshsh/cmd/dshsh/internal/app"
)

var update = flag.Bool("update", false, "rewrite what the scripts in testdata compare with")

// TestMain makes dshsh a command of the scripts: this very binary, run under that name.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"dshsh": func() { os.Exit(app.Main(app.OS())) },
	})
}

// tests runs the tests, removes what they built, and looks for goroutines they left.
type tests struct{ *testing.M }

func (m tests) Run() int {
	// They wait for programs more than they compute.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	code := m.M.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// built is the program as its users have it, built when the first test asks for it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// binary is the path of the built program.
func binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "dshsh-test"); built.err != nil {
			return
		}
		args := []string{"build", "-o", filepath.Join(built.dir, "dshsh")}
		if raceEnabled {
			args = append(args, "-race")
		}
		out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "dshsh")
}
