package js

import (
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"
)

// Arithmetic on BigInts is one instruction, which no interrupt reaches and no method can
// be put before: 1n << (1n << 40n) ends the process. In files that have a way to BigInts,
// the operators that make large ones call functions of ours instead, which look at the
// operands first. Numbers pass by them at the cost of a call.

var bigLiteral = regexp.MustCompile(`\d\s*n\b`)

// usesBigInts says whether a source has a way to BigInts.
func usesBigInts(code string) bool {
	return bigLiteral.MatchString(code) || strings.Contains(code, "BigInt") || strings.Contains(code, `\u`) ||
		(strings.Contains(code, "this") || strings.Contains(code, "globalThis")) && computedKey.MatchString(code)
}

// bigGlobal holds the functions. No script can declare or mean that name by accident.
const bigGlobal = "dshsh:big"

// bigProgram makes the functions. As numbers, both operands are coerced once, the left one
// first, as the operators do.
var bigProgram = lazily("big", `((check) => {
  const number = (x) => (typeof x === 'object' && x !== null || typeof x === 'function' ? -(-x) : x);
  const guarded = (op, apply) => (a, b) => {
    if (typeof a !== 'number' || typeof b !== 'number') {
      a = number(a);
      b = number(b);
      if (typeof a === 'bigint' && typeof b === 'bigint') check(op, a, b);
    }
    return apply(a, b);
  };
  return {
    pow: guarded('**', (a, b) => a ** b), mul: guarded('*', (a, b) => a * b),
    shl: guarded('<<', (a, b) => a << b), shr: guarded('>>', (a, b) => a >> b),
    by: (op, b) => { b = number(b); if (typeof b === 'bigint') check(op, 2n, b); return b; },
  };
})`)

var bigOperators = map[token.Token]string{token.EXPONENT: "pow", token.MULTIPLY: "mul", token.SHIFT_LEFT: "shl", token.SHIFT_RIGHT: "shr"}

// checkBig refuses operands whose result would have more than maxBits bits.
func (v *vm) checkBig(c goja.FunctionCall) goja.Value {
	op := c.Argument(0).String()
	a, _ := c.Argument(1).Export().(*big.Int)
	b, _ := c.Argument(2).Export().(*big.Int)
	if a == nil || b == nil {
		return goja.Undefined()
	}
	bits := float64(a.BitLen())
	by, _ := new(big.Float).SetInt(b).Float64()
	switch op {
	case "*":
		bits += float64(b.BitLen())
	case "**":
		if bits > 1 { // 0, 1 and -1 stay as they are
			bits *= by
		} else {
			bits = 1
		}
	case "<<":
		bits += by
	case ">>":
		bits -= by
	}
	if bits > maxBits {
		panic(v.rangeError(fmt.Sprintf("%s: a BigInt of %.0f bits is larger than %d", op, bits, maxBits)))
	}
	return goja.Undefined()
}

// guardBigInt bounds what a BigInt is made of: reading digits takes time in the square of
// their number.
func (v *vm) guardBigInt(ctor *goja.Object) {
	orig, ok := goja.AssertFunction(ctor)
	if !ok {
		return
	}
	guarded := v.native("BigInt", func(c goja.FunctionCall) goja.Value {
		if o, ok := c.Argument(0).(*goja.Object); ok {
			if n, ok := o.Export().(*big.Int); ok && o.ClassName() != "Array" {
				c.Arguments[0] = v.rt.ToValue(n)
			} else {
				c.Arguments[0] = o.ToString()
			}
		}
		if n := textLength(c.Argument(0)); n > maxDigits {
			panic(v.rangeError(fmt.Sprintf("BigInt: %.0f digits are more than %d", n, maxDigits)))
		}
		return v.forward(orig, c)
	})
	for _, key := range []string{"asIntN", "asUintN"} {
		v.hide(guarded, key, ctor.Get(key))
	}
	if proto, ok := ctor.Get("prototype").(*goja.Object); ok {
		_ = guarded.Set("prototype", proto)
		v.hide(proto, "constructor", guarded)
	}
	v.hide(v.rt.GlobalObject(), "BigInt", guarded)
}

// bigFunctions makes what rewritten operators call.
func (v *vm) bigFunctions() goja.Value {
	make, err := v.helper(bigProgram)
	if err != nil {
		panic(err)
	}
	obj, err := make(goja.Undefined(), v.native("check", v.checkBig))
	if err != nil {
		panic(err)
	}
	return obj
}

func callBig(at file.Idx, name string, args ...ast.Expression) ast.Expression {
	return &ast.CallExpression{
		Callee: &ast.DotExpression{
			Left:       &ast.Identifier{Name: bigGlobal, Idx: at},
			Identifier: ast.Identifier{Name: unistring.String(name), Idx: at},
		},
		LeftParenthesis: at, ArgumentList: args, RightParenthesis: at,
	}
}

// guardBigMath rewrites the operators in a syntax tree.
func guardBigMath(tree *ast.Program) {
	rewriter{seen: map[uintptr]bool{}, replace: guardedExpression}.walk(reflect.ValueOf(tree).Elem())
}

// rewriter walks over a tree by reflection: what is to be replaced stands in fields of
// any kind of node.
type rewriter struct {
	seen    map[uintptr]bool
	replace func(ast.Expression) ast.Expression // what stands for an expression, nil for itself
}

var expressionType = reflect.TypeFor[ast.Expression]()

func (r rewriter) walk(x reflect.Value) {
	switch x.Kind() {
	case reflect.Interface:
		if x.IsNil() {
			return
		}
		r.walk(x.Elem())
		if x.Type() == expressionType && x.CanSet() {
			if e := r.replace(x.Interface().(ast.Expression)); e != nil {
				x.Set(reflect.ValueOf(e))
			}
		}
	case reflect.Pointer:
		if x.IsNil() || r.seen[x.Pointer()] || x.Type() == reflect.TypeFor[*file.File]() {
			return
		}
		r.seen[x.Pointer()] = true
		r.walk(x.Elem())
	case reflect.Struct:
		for i := range x.NumField() {
			if x.Type().Field(i).IsExported() {
				r.walk(x.Field(i))
			}
		}
	case reflect.Slice:
		for i := range x.Len() {
			r.walk(x.Index(i))
		}
	}
}

// guardedExpression is what stands for an expression, nil for itself.
func guardedExpression(e ast.Expression) ast.Expression {
	switch e := e.(type) {
	case *ast.BinaryExpression:
		if f := bigOperators[e.Operator]; f != "" {
			return callBig(e.Idx0(), f, e.Left, e.Right)
		}
	case *ast.AssignExpression:
		f := bigOperators[e.Operator]
		if f == "" {
			return nil
		}
		if id, ok := e.Left.(*ast.Identifier); ok {
			return &ast.AssignExpression{Operator: token.ASSIGN, Left: id, Right: callBig(e.Idx0(), f, &ast.Identifier{Name: id.Name, Idx: id.Idx}, e.Right)}
		}
		// The object must be evaluated once, so that only the right side can be looked at: a
		// step is bounded by it, and between steps there are interrupts.
		op := &ast.StringLiteral{Idx: e.Idx0(), Literal: `"` + e.Operator.String() + `"`, Value: unistring.String(e.Operator.String())}
		e.Right = callBig(e.Idx0(), "by", op, e.Right)
	}
	return nil
}
