// Package netlab builds networks of Linux network namespaces, for tests only: hosts on a
// switch, each with its own interface and address, that can be cut off in one direction or
// both, unplugged, given another address, and placed behind a NAT that loses its mappings.
// Real processes run on the hosts. The network is not connected to anything else.
//
// It needs Linux, root, and the commands ip, nft and nsenter. If one is missing, New skips
// the test and says why. The namespaces have no names, so they disappear with the test's
// process, however that ends.
//
// The methods of a Lab and of its hosts are safe for concurrent use. They fail the test if
// the kernel refuses an operation, so call them only where t.Fatal may be called.
package netlab
