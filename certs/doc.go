// Package certs is the mesh's certificate authority: join tokens and the proofs made with
// them, identities, a process's credentials and their renewal, rotation of the root, and
// verification of peers.
//
// An [Authority] holds the key of a root and issues short-lived certificates, each for one
// [Identity]. [Credentials] are a process's certificate and [Trust]. The tls.Configs made
// from them always use the current ones, so a renewal or a new root needs no restart. A
// [Rotation] says which roots are trusted, and which one issues, while one root replaces
// another.
//
// The package does no networking, starts no goroutine, imports nothing of Locus,
// and touches files only in [SaveCredentials], [LoadCredentials] and [ReplaceFile].
package certs
