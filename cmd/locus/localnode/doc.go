// Package localnode runs nodes as processes of this program's own, for commands that
// need nodes which nobody else uses: locus chaos breaks them, locus bench measures one.
// A node ends when it is told to, and at the latest with this process, however that ends.
// Nodes run on Linux only, and so does this.
package localnode
