package runtime_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A thread that is closed has no goroutine left: every test of the package is held to it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
