package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kind is the type of a command in the log. Numbers are never reused; the number of a removed
// command stays in the list.
type kind uint8

const (
	kindInitCluster kind = iota + 1
	kindRegisterNode
	kindMarkNode
	kindClaimSession
	kindMarkLost
	kindRebuildSession
	kindAckLoss
	kindTouchSessions
	kindCloseSession
	kindRenameSession
	kindCreateActor
	kindAddActorToken
	kindRevokeActorToken
	kindEndActor
	kindCreateToken
	kindUseToken
	kindRevokeToken
	kindRevokeIdentity
	kindSetTrust
	kindSetGossipKeys
	kindDrainNode
	kindLabelNode
	kindRemoveNode
	kindReserveKey
	kindRecoverMesh
	kindAddVenv
	kindRemoveVenv
	kindRecordBuild
	kindDropBuild
	kindPutFunction
	kindRemoveFunction
	kindPutServer
	kindRemoveServer
	kindLinkMachine
	kindConnectMachine
	kindDisconnectMachine
	kindUnlinkMachine
)

// longest is the largest size of a command of a kind, in bytes.
func (k kind) longest() int {
	switch k {
	case kindAddVenv, kindRecordBuild, kindPutFunction:
		return MaxLongCommand
	}
	return MaxCommand
}

// moment is when a command takes effect: its log index, and the time at which it was
// proposed.
type moment struct {
	index uint64
	at    Timestamp
}

// Proposal identifies a command. Fields that are zero are filled in.
type Proposal struct {
	// Request identifies the command. Set it to resend a command whose outcome is unknown:
	// if the first one was applied, the answer is its recorded outcome.
	Request RequestID
	// At is when the command was proposed.
	At Timestamp
}

func (p Proposal) proposal() Proposal { return p }

// command is the payload of a kind. Its methods are pure functions, so that all replicas
// compute the same.
type command interface {
	kind() kind
	proposal() Proposal
	// bounds returns errBounds if a field is out of bounds. It is checked before the
	// command is proposed, and again by every replica.
	bounds() error
	// apply changes the tables and returns the outcome. It makes either all the changes that
	// the outcome reports, or none.
	apply(t tables, m moment) any
}

// spec decodes the payload and the recorded outcome of a kind.
type spec struct {
	command func([]byte) (command, error)
	outcome func([]byte) (any, error)
}

var specs = map[kind]spec{
	kindInitCluster:       specOf[initCluster, initOutcome](),
	kindRegisterNode:      specOf[RegisterNode, RegisterOutcome](),
	kindMarkNode:          specOf[MarkNode, MarkNodeOutcome](),
	kindClaimSession:      specOf[ClaimSession, ClaimOutcome](),
	kindMarkLost:          specOf[MarkLost, MarkLostOutcome](),
	kindRebuildSession:    specOf[RebuildSession, RebuildOutcome](),
	kindAckLoss:           specOf[AckLoss, AckOutcome](),
	kindTouchSessions:     specOf[TouchSessions, TouchOutcome](),
	kindCloseSession:      specOf[CloseSession, CloseOutcome](),
	kindRenameSession:     specOf[RenameSession, RenameOutcome](),
	kindCreateActor:       specOf[CreateActor, CreateActorOutcome](),
	kindAddActorToken:     specOf[AddActorToken, TokenOutcome](),
	kindRevokeActorToken:  specOf[RevokeActorToken, TokenOutcome](),
	kindEndActor:          specOf[EndActor, EndActorOutcome](),
	kindCreateToken:       specOf[CreateToken, CreateTokenOutcome](),
	kindUseToken:          specOf[UseToken, UseTokenOutcome](),
	kindRevokeToken:       specOf[RevokeToken, RevokeTokenOutcome](),
	kindRevokeIdentity:    specOf[RevokeIdentity, RevokeIdentityOutcome](),
	kindSetTrust:          specOf[SetTrust, TrustOutcome](),
	kindSetGossipKeys:     specOf[SetGossipKeys, GossipKeysOutcome](),
	kindDrainNode:         specOf[DrainNode, NodeOutcome](),
	kindLabelNode:         specOf[LabelNode, NodeOutcome](),
	kindRemoveNode:        specOf[RemoveNode, NodeOutcome](),
	kindReserveKey:        specOf[ReserveKey, ReserveKeyOutcome](),
	kindRecoverMesh:       specOf[recoverMesh, recoverOutcome](),
	kindAddVenv:           specOf[AddVenv, VenvOutcome](),
	kindRemoveVenv:        specOf[RemoveVenv, VenvOutcome](),
	kindRecordBuild:       specOf[RecordBuild, VenvOutcome](),
	kindDropBuild:         specOf[DropBuild, VenvOutcome](),
	kindPutFunction:       specOf[PutFunction, FunctionOutcome](),
	kindRemoveFunction:    specOf[RemoveFunction, FunctionOutcome](),
	kindPutServer:         specOf[PutServer, ServerOutcome](),
	kindRemoveServer:      specOf[RemoveServer, ServerOutcome](),
	kindLinkMachine:       specOf[LinkMachine, MachineOutcome](),
	kindConnectMachine:    specOf[ConnectMachine, MachineOutcome](),
	kindDisconnectMachine: specOf[DisconnectMachine, MachineOutcome](),
	kindUnlinkMachine:     specOf[UnlinkMachine, MachineOutcome](),
}

func specOf[C command, O any]() spec {
	return spec{
		command: func(b []byte) (command, error) { return decodeStrict[C](b) },
		outcome: func(b []byte) (any, error) { return decodeStrict[O](b) },
	}
}

// decodeStrict decodes exactly one JSON value without unknown fields, so that a payload of a
// higher feature level is not partly applied.
func decodeStrict[T any](b []byte) (T, error) {
	var v T
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("something follows the payload")
	}
	return v, nil
}

// envelope is the encoding of a command in the log: level (1 byte), kind (1), request id
// (16), time (8, big-endian nanoseconds), then the payload as JSON.
type envelope struct {
	level   uint8
	kind    kind
	request RequestID
	at      Timestamp
	payload []byte
}

const envelopeHeader = 1 + 1 + 16 + 8

func (e envelope) encode() []byte {
	b := make([]byte, 0, envelopeHeader+len(e.payload))
	b = append(b, e.level, byte(e.kind))
	b = append(b, e.request[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.at))
	return append(b, e.payload...)
}

// decodeEnvelope decodes the header only. The payload aliases b.
func decodeEnvelope(b []byte) (envelope, error) {
	if len(b) < envelopeHeader {
		return envelope{}, fmt.Errorf("a command has at least %d bytes, got %d", envelopeHeader, len(b))
	}
	e := envelope{level: b[0], kind: kind(b[1]), payload: b[envelopeHeader:]}
	if longest := e.kind.longest(); len(b) > longest {
		return envelope{}, fmt.Errorf("a command of kind %d has at most %d bytes, got %d", e.kind, longest, len(b))
	}
	copy(e.request[:], b[2:18])
	e.at = Timestamp(binary.BigEndian.Uint64(b[18:26]))
	if e.request == (RequestID{}) || e.level == 0 || e.at <= 0 {
		return envelope{}, errors.New("a command has a level, a request id and a time")
	}
	return e, nil
}

// encodeCommand encodes a command for a mesh of a feature level. Errors are ErrUnsupported and
// ErrMalformed.
func encodeCommand(c command, p Proposal, at uint8) ([]byte, error) {
	if c.kind().since() > at {
		return nil, fmt.Errorf("%w: it takes level %d, the mesh is at %d", ErrUnsupported, c.kind().since(), at)
	}
	if err := c.bounds(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	b := envelope{level: at, kind: c.kind(), request: p.Request, at: p.At, payload: payload}.encode()
	if longest := c.kind().longest(); len(b) > longest {
		return nil, fmt.Errorf("%w: %w: the command has %d bytes, at most %d", ErrMalformed, errBounds, len(b), longest)
	}
	return b, nil
}
