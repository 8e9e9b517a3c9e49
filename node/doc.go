// Package node assembles one running node: registry, engine, placement, call records,
// gateway and mesh. It starts them in the order of their dependencies and stops them in
// reverse.
package node
