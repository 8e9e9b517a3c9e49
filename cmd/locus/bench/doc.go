// Package bench measures what a caller of a node waits for, each thing beside the bare
// mechanism that it stands on, or what one would use instead: the floor. Both take turns,
// so that a machine with other work is slow for both.
//
// It is for a person's own machine and node, at the door. The goals of the parts are
// measured by the benchmarks of the packages (make bench).
package bench
