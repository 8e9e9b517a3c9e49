// Package audit keeps a node's audit log: append-only files of JSON lines in a hash chain.
//
// The last member of a line is its hash: the hex SHA-256 of the previous line's hash (its
// 32 bytes, zeros for the first line) and the bytes of the line up to `,"hash":`. So no
// line can be changed, removed or moved without computing all later ones again. The chain
// alone does not show that its end was cut off or computed again; that takes a later hash
// which somebody else has kept.
//
// One goroutine writes the lines, a few milliseconds after they were added, and always
// before a reader that asks for them is served. Within a second they are synced to the
// disk. Lines that cannot be written are held up to a bound. Beyond it entries are dropped
// and counted, and the count is logged as soon as the log can be written again: a full disk
// stops no call.
package audit
