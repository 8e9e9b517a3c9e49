// Package present turns what a node answers into text for people: values as a
// prompt of their language would show them, failures with what to do about them,
// aligned tables, sizes and ages. It writes nothing by itself and reads no clock.
package present
