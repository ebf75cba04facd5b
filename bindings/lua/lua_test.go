package lua_test

import (
	"testing"

	"go.uber.org/goleak"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) { bindingstest.Run(t, lua.Engine()) }
