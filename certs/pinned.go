package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ErrWrongPin: the server is not of the mesh that the token was made for, or that
// mesh has another root by now. A new token helps in the second case only.
var ErrWrongPin = errors.New("certs: the server does not show the root that the token names")

// Learned is what a joiner knows of the mesh once it has met a node.
type Learned struct {
	Cluster string
	// Root is the one that the pin names.
	Root *x509.Certificate
	// Server is the node that was met.
	Server Identity
}

// PinnedClient is the joiner's side of a Door: it shows no certificate and
// accepts only a node behind which the root with this pin stands. What it met is
// told by the pin's Learn, given the connection's state. The config's Time may be
// set before its use.
func PinnedClient(pin Pin, protocols ...string) *tls.Config {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         protocols,
		ServerName:         ServerName,
		InsecureSkipVerify: true, // judged below, by the pin
		Time:               time.Now,
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := spoken(state, protocols); err != nil {
			return err
		}
		_, err := pin.Learn(state, config.Time())
		return err
	}
	return config
}

// Learn judges the server of a connection by the pin alone, and tells what it
// says of its mesh. ErrWrongPin, or an error as for any peer.
func (p Pin) Learn(state tls.ConnectionState, now time.Time) (Learned, error) {
	chain := state.PeerCertificates
	root, cluster, err := p.find(chain)
	if err != nil {
		return Learned{}, err
	}
	id, err := verify(chain, Trust{Roots: []*x509.Certificate{root}}.pool(), x509.ExtKeyUsageServerAuth, now)
	if err != nil {
		return Learned{}, err
	}
	if id.Cluster != cluster {
		return Learned{}, fmt.Errorf("%w: %s under a root of %s", ErrWrongCluster, id, cluster)
	}
	return Learned{Cluster: cluster, Root: root, Server: id}, nil
}

// find gives the self-signed certificate with the pin.
func (p Pin) find(chain []*x509.Certificate) (root *x509.Certificate, cluster string, err error) {
	for _, cert := range chain {
		if PinOf(cert) != p {
			continue
		}
		// The same key also stands in a cross-signed certificate, which is no root.
		if cluster, err := checkRoot(cert); err == nil {
			return cert, cluster, nil
		}
	}
	return nil, "", ErrWrongPin
}
