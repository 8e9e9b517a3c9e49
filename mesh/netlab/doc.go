// Package netlab builds networks out of the kernel's namespaces, for tests only: hosts
// on a switch, each with its own interface and address, that can be cut off one way or
// both, unplugged, given another address, and hidden behind a NAT that forgets its
// mappings. Real processes run on the hosts. Nothing on such a network reaches anything
// outside of it.
//
// It works on Linux, as root, with the commands ip, nft and nsenter; New skips the test,
// with the reason, where one of these is missing. No namespace has a name, and none
// outlives the test's process, however that ends: what is in them goes with them.
//
// The methods of a Lab and of its hosts may be called at the same time. They fail the
// test when the kernel refuses, so they are for the test's own goroutine and its helpers.
package netlab
