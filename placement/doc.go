// Package placement decides where a call runs. It finds or claims the owner of the
// call's session, picks a node for new sessions and stateless calls, and decides whether
// a call whose process or node was lost is retried. No other package retries a call.
package placement
