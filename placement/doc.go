// Package placement leads a call from its coordinate to a place: it finds or
// claims the owner of its session, picks where a new one goes, and decides what
// happens when the process or the node under an attempt is lost. It is the only
// package that tries anything twice.
package placement
