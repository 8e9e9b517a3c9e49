// Package checkup looks at a machine for "locus doctor": which languages it has,
// and whether the data directory can be used. It changes nothing.
package checkup
