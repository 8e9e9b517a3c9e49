// Package calls holds the records of the calls that came in through this node: output,
// events and result, while a call runs and for some time afterwards. A caller that lost its
// connection finds its call by id and continues reading where it left off. A call whose
// idempotency key was used before is answered from here.
//
// The memory per call is bounded, however much it prints.
package calls
