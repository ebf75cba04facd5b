// Package session keeps the durable log of a session: one file of JSON lines, a header and then one
// record a line, that is only ever appended to.
//
// The package is blind to what a record means. It knows the envelope (type, seq, time, data, ignorable,
// surfaceOp, sourceEventSeqs) and nothing of data; whoever does know hands it a [Validator], a fold that is
// asked before each record whether it may follow, and after a crash for the records that close what was left open.
//
// # Files
//
//	DIR/ID.jsonl      the log
//	DIR/ID.files/     what does not belong into a line (tool output saved aside), made on demand
//	DIR/ID.lock       who has the log open, for people to read; the lock itself is on ID.jsonl
//	DIR/ID.torn       the torn tail that an Open cut off (then ID.torn.2, ...)
//	DIR/.new/         files being written; they get their name once they are whole
//
// # What is promised
//
//   - Append returns after write(2) took the whole line: a killed process loses nothing that it acted on. Sync
//     returns after fsync(2): neither does a machine that loses power.
//   - A record is whole when its newline is there. Half a record is never followed by another: after a failed
//     write the next append first cuts the file back to its last whole record.
//   - Opening cuts off a torn tail, keeps it beside the log and reports it. Damage before the last whole record is
//     refused, naming the line; Repair then writes a mended copy and leaves the file as it is.
//   - One writer. The lock is the operating system's, on the log file itself: it belongs to the inode, so nothing
//     that happens to the lock's description matters, and it dies with its process. A process that is stopped
//     (SIGSTOP, a suspended laptop) is still the holder: everybody else is refused and told who it is, and may work
//     on a fork, for which no lock is needed. Since nobody else can have written meanwhile, what the woken
//     process writes continues its own log. Where a lock fails to hold (an exotic network file system, a sync tool
//     that swaps files), each append first compares the file's size with the size that it must have, and
//     refuses to write into a file that another program changed or removed.
//   - A failed fsync leaves it open what is on disk. The bytes since the last good one are then read back, past the
//     page cache where the system allows it, and compared; only if they are all there the log goes on.
package session
