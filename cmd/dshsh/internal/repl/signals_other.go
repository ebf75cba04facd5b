//go:build !unix

package repl

import "os"

// watched are the signals that an Editor with a terminal takes.
var watched = []os.Signal{os.Interrupt}

func isResize(os.Signal) bool   { return false }
func isContinue(os.Signal) bool { return false }
func stopSelf()                 {}
func dieBy(os.Signal)           { os.Exit(1) }
func waitWritable(*os.File)     {}
func again(error) bool          { return false }
