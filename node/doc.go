// Package node puts one running node together: its registry, its engine, its
// placement, the calls it remembers and the doors it opens, in the order in which
// they depend on each other, and takes them apart in the reverse order.
package node
