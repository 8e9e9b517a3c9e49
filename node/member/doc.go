// Package member is how this process becomes and stays a member of its mesh: it
// founds a mesh or joins one by a token, keeps its certificate fresh, lets others
// in, and keeps the mesh's certificate authority on the nodes that vote.
//
// The authority's key is on every voter, sealed on its disk under a key of its
// own, so that the mesh goes on enrolling and renewing when the founder is gone.
package member
