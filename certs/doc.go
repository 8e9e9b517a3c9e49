// Package certs is the home of the mesh's certificate authority: join tokens,
// enrolment, identities, rotation and revocation. A mesh of one node needs none
// of it yet, so the package holds no code; it imports nothing of Locus.
package certs
