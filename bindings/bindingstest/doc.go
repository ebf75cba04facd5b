// Package bindingstest is one suite of script cases that every language binding runs.
//
// A case is a txtar file in testdata. Its comment is prose, with lines of these forms
// in it:
//
//	differs: REASON            the case has one language only
//	limits: sync=50 wall=100 grace=20    runtime.Limits, in milliseconds
//
// Its sections:
//
//	fire         what happens, a line each (see below)
//	a.js a.lua   the script a in each language; b, c, ... in the same layer
//	x/y.js ...   any other file: is put into the script folder
//	trace        the expected lines of trace(...), which every script has
//	answers      what each fired event came to: "ok", an answer as JSON, or "error: TEXT"
//	failures     what was contained and reported: "EVENT: TEXT", or the kind of work
//	decisions    "EVENT: a=denied b=passed -> denied"
//	logs         "LEVEL TEXT"
//	load         the errors of scripts that do not load
//
// A missing trace, failures or load section means none; a missing answers section means
// that every event came to something else than an error; the others are then not
// compared. NAME.js or NAME.lua, such as trace.lua, takes the place of NAME for that
// language. In texts "a.js:12" and "a.lua:12" read "a". A line that begins with "~ " is
// a regular expression for the whole line.
//
// A line of fire is an event's name and its payload as JSON, or one of
//
//	& EVENT JSON   fires without waiting for the end
//	join           waits for all such
//	wait           waits for one call of ctx.test.done()
//	failures N     waits until so many lines of failures have come
//	unload         ends all scripts
//
// An error must be blamed on the line that ends in //! "REGEXP" (--! in Lua): some
// error must name that place and match.
package bindingstest
