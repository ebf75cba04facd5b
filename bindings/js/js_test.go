package js_test

import (
	"testing"

	"go.uber.org/goleak"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
)

func TestMain(m *testing.M) {
	// The clock of regexp2 ends by itself, a while after the last match with a limit.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

func TestSuite(t *testing.T) { bindingstest.Run(t, js.Engine()) }
