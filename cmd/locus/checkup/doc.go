// Package checkup checks a machine for "locus doctor": its languages, and its data
// directory. It changes nothing.
package checkup
