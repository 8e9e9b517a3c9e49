// Package certs is the mesh's certificate authority and all that follows from
// it: join tokens and the proof that goes with them, identities, the credentials
// that this process shows and believes, their renewal, the change of the root,
// and the judgement of a peer.
//
// An [Authority] holds a root's key and issues short-lived certificates whose
// only meaning is an [Identity]. [Credentials] are one process's certificate and
// [Trust]; the tls.Configs made from them always use the present ones, so a
// renewal or a new root needs no restart. A [Rotation] says what is trusted and
// who issues while one root replaces another.
//
// The package does no networking, starts no goroutine, imports nothing of Locus,
// and touches files only in [SaveCredentials], [LoadCredentials] and [ReplaceFile].
package certs
