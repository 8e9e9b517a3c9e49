// Package calls remembers the calls that came in through this node: what each
// one printed, said and came to, while it runs and for some time afterwards. A
// caller that lost its connection finds its call here by id and reads on from
// where it left off; a call with an idempotency key that came before is answered
// from here.
//
// What is held of one call is bounded, however much it prints.
package calls
