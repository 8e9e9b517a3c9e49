package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ErrWrongPin: the server does not belong to the mesh of the token, or that mesh has another
// root by now. A new token helps only in the second case.
var ErrWrongPin = errors.New("certs: the server does not show the root that the token names")

// PinnedPeer is what a joiner knows about the mesh after its first connection to a node.
type PinnedPeer struct {
	Cluster string
	// Root is the root with the pin.
	Root *x509.Certificate
	// Server is the node that it connected to.
	Server Identity
}

// PinnedClient is the joiner's side of a Door: it sends no certificate, and accepts only a node
// whose chain leads to the root with this pin. The pin's Learn then returns what the
// connection has shown. The config's Time may be set before its use.
func PinnedClient(pin Pin, protocols ...string) *tls.Config {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         protocols,
		ServerName:         ServerName,
		InsecureSkipVerify: true, // verified below, by the pin
		Time:               time.Now,
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := checkProtocol(state, protocols); err != nil {
			return err
		}
		_, err := pin.Verify(state, config.Time())
		return err
	}
	return config
}

// Verify verifies the server of a connection by the pin alone, and returns what it shows about
// its mesh. It fails with ErrWrongPin, or like VerifyServer.
func (p Pin) Verify(state tls.ConnectionState, now time.Time) (PinnedPeer, error) {
	chain := state.PeerCertificates
	root, cluster, err := p.find(chain)
	if err != nil {
		return PinnedPeer{}, err
	}
	id, err := verify(chain, Trust{Roots: []*x509.Certificate{root}}.pool(), x509.ExtKeyUsageServerAuth, now)
	if err != nil {
		return PinnedPeer{}, err
	}
	if id.Cluster != cluster {
		return PinnedPeer{}, fmt.Errorf("%w: %s under a root of %s", ErrWrongCluster, id, cluster)
	}
	return PinnedPeer{Cluster: cluster, Root: root, Server: id}, nil
}

// find returns the self-signed certificate with the pin.
func (p Pin) find(chain []*x509.Certificate) (root *x509.Certificate, cluster string, err error) {
	for _, cert := range chain {
		if PinOf(cert) != p {
			continue
		}
		// A cross-certificate has the same key, but is not a root.
		if cluster, err := checkRoot(cert); err == nil {
			return cert, cluster, nil
		}
	}
	return nil, "", ErrWrongPin
}
