// Package bench measures the latency and throughput that a client of a node sees, each
// beside a floor: the bare mechanism below it, or the usual alternative to it. Measurement
// and floor alternate, so that other load on the machine affects both.
//
// It measures a user's own node through its API. The internal performance goals are
// measured by the packages' benchmarks (make bench).
package bench
