// Package render turns session records into what a person reads, and makes text safe
// to show.
//
// There is one path from a record to the screen: a Renderer is fed every record in
// order, live from `session/event` and, when a session is resumed, from its log. It does
// no I/O; it returns whole lines, and the caller prints them.
//
// The text helpers (Visible, Printable, Width, Cluster, Clip) are shared with the
// terminal layer, so that there is one opinion on what a character is and how wide.
package render
