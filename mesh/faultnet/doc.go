// Package faultnet is an in-memory packet network for tests: many nodes in one process,
// with delay, loss, duplication and reordering of packets, partitions in one direction or
// both, and isolated hosts. It has no goroutines and no timers of its own, so it also works
// inside a testing/synctest bubble.
//
// In a bubble all goroutines must end before the test function returns. A last probe of a
// closed gossip may take some seconds more, so sleep for a minute of the bubble's time in
// the cleanup that runs last.
//
// The faults are drawn from a seed. The same seed gives the same draws; which packet gets
// which draw still depends on the order in which goroutines send.
package faultnet
