// Package audit keeps a node's audit log: files of JSON lines to which is only ever
// added, each line chained to the one before it by a hash.
//
// The last member of a line is its hash: the SHA-256, in hex, of the 32 bytes of the
// hash of the line before (zeros before the first) and of the bytes of the line up to
// `,"hash":`. So nobody can change, remove or reorder lines without making all later ones
// anew. That the end was cut off cannot be seen from the chain; for that somebody else
// must know a later hash.
//
// Lines are written by one goroutine, a few milliseconds after they were added and before
// anybody who asks for them reads them, and are on the disk for good a second later. What
// cannot be written is held for a while, then counted, and told in the log when it can be
// written again: a full disk stops nobody.
package audit
