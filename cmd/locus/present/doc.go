// Package present formats a node's answers for terminals: values like the prompt of their
// language, failures with advice, tables, sizes and ages. It does no I/O of its own and
// reads no clock.
package present
