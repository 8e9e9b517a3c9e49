// Package member makes and keeps this process a member of its mesh. It founds a mesh or
// joins one with a token, renews the node's certificate, enrols others, and keeps the
// mesh's certificate authority on the voters.
//
// Every voter has the authority's key, sealed on disk under a key of its own, so that the
// mesh can enrol and renew without the founder.
package member
