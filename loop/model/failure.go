package model

import (
	"context"
	"errors"
	"fmt"
)

// AsFailure turns any error of a model call into the Failure that is logged, and nil
// into nil.
//
// When ctx is done the code is ABORTED, whatever err is: what breaks after a cancel broke
// because of it. Otherwise a *Failure anywhere in err's chain gives the code and the other
// facts, context.Canceled gives ABORTED, and everything else UNKNOWN. The message is
// err's own. errors.Is and errors.As see err, and the cause of ctx, through the result.
func AsFailure(ctx context.Context, err error) *Failure {
	if err == nil {
		return nil
	}
	aborted := ctx != nil && ctx.Err() != nil
	if f, ok := err.(*Failure); ok {
		switch {
		case f == nil:
			return nil // a nil *Failure that became an error on its way: no failure
		case f.Code == "" || f.Message == "":
		case !aborted, f.Code == CodeAborted && errors.Is(f, context.Cause(ctx)):
			return f
		}
	}
	g := Failure{Code: CodeUnknown}
	var f *Failure
	if errors.As(err, &f) && f != nil {
		g = *f
	}
	g.Message = Scrub(err.Error())
	if g.Message == "" {
		g.Message = fmt.Sprintf("the model call failed without a message (%T)", err)
	}
	switch {
	case aborted:
		cause := context.Cause(ctx)
		if !errors.Is(err, cause) {
			err = &both{err, cause}
		}
		g = Failure{Code: CodeAborted, Message: g.Message, RequestID: g.RequestID}
	case g.Code == "" || g.Code == CodeUnknown:
		g.Code = CodeUnknown
		if errors.Is(err, context.Canceled) {
			g.Code = CodeAborted
		}
	}
	return g.WithCause(err)
}

// both is err for people and both errors for errors.Is.
type both struct{ err, cause error }

func (b *both) Error() string   { return b.err.Error() }
func (b *both) Unwrap() []error { return []error{b.err, b.cause} }

// Failf returns a Failure with the given code. A %w in the format becomes its cause.
func Failf(code, format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	f := Failure{Code: code, Message: Scrub(err.Error())}
	if errors.Unwrap(err) == nil {
		if _, several := err.(interface{ Unwrap() []error }); !several {
			return &f
		}
	}
	return f.WithCause(err)
}
