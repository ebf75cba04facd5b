// Package shell is the built-in tool bash: one command, run to its end, to its time
// limit or to the turn's cancel, with its output bounded.
//
// # What a command is given
//
// An agent's first command starts in the working folder, each further one where the one
// before ended, as long as that is below the working folder. It runs in a session
// and process group of its own, without a terminal and with an empty standard input.
// Whatever asks a question there fails at once or at the time limit; nothing typed at
// the prompt can reach it. Its environment is the one that dshsh was given, without the keys of
// model services (see [Config].Scrub) and with settings that keep pagers and editors
// away. Standard output and standard error are one pipe, so their order is kept.
//
// Taking the keys from the environment keeps them out of sight, no more: a process of the same
// user can read the environment of dshsh itself from the system (/proc on linux) and the
// user's files.
//
// # What ends with a call
//
// A call that is cancelled or reaches its limit is ended with all that it started: the
// processes get TERM, half a second to tidy up, and KILL. They are found by
// the process group, by descent, and on linux by a variable in their
// environment, which finds those too that left the group (setsid) and whose parents are gone.
//
// What can survive:
//
//   - what runs on behalf of the command without being its descendant: containers,
//     services, at and cron jobs;
//   - a process of another user (sudo) that this one may not signal;
//   - on linux, a process that left the group, lost its parent and has no trace of the
//     variable: it was started with an empty environment (env -i), or overwrote
//     the memory that holds it;
//   - on other systems, any process that left the group and lost its parent;
//   - everything, when dshsh itself is killed with KILL.
//
// A call whose shell exits by itself is over at that moment, even when the shell left
// processes in the background that hold the output. Those go on, so that a server can be
// started in one call and used in the next. Their further output is read and dropped, the
// result lists them, and [Bash.Close] ends them.
package shell
