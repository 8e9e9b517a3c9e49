// Package localnode runs nodes as child processes, for commands that need nodes of their
// own: locus chaos and locus bench. A node ends at the latest with this process, however
// that ends. Linux only, like nodes.
package localnode
