// Package faultnet is a packet network in memory, for tests: many nodes in one
// process, with packets that are delayed, lost, doubled and reordered, cables that are
// cut one way or both, and machines that are isolated. It has no goroutines and no
// timers of its own, so that it also works inside a testing/synctest bubble.
//
// In a bubble, everything must end before the test function does, and time stands still
// after it. The last probe of a closed gossip takes up to some seconds to end: sleep for
// a minute, of the bubble's time, in a cleanup that runs last.
//
// The faults are drawn from a seed. The same seed gives the same draws; which packet
// gets which draw still depends on the order in which goroutines send.
package faultnet
