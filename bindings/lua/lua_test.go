package lua_test

import (
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
)

func TestSuite(t *testing.T) { bindingstest.Run(t, lua.Engine()) }
