// Package cables injects network faults between nodes that are real processes on one
// machine. A UDP proxy in front of each node drops, delays and duplicates packets, and can
// be cut off in one direction or both. It is for tests and for locus chaos, needs no
// privileges, and works where all of 127.0.0.0/8 is loopback, as on Linux.
//
// Node i listens at an address that only its proxy sends to, and advertises the proxy's
// address. The proxy for i forwards a packet from the socket of the sender's proxy, so
// every node sees the others at their proxies' addresses.
//
// The faults are drawn from a seed. Which packet gets which draw depends on the order in
// which packets arrive.
package cables
