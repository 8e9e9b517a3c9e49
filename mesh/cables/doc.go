// Package cables breaks the network of nodes that are real processes on one machine:
// a UDP proxy in front of each node loses, delays and doubles packets, and can be cut in
// one direction or both. It is for tests and for locus chaos, needs no rights, and works
// where 127.0.0.0/8 is loopback, as it is on Linux.
//
// Node i listens at an address that only its proxy uses, and advertises the proxy's: a
// packet for i leaves from the proxy of whoever sent it, so that every node sees the
// others at their proxies.
//
// The faults are drawn from a seed; which packet gets which draw depends on the order in
// which they come.
package cables
