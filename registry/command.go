package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kind names a command on the log. Numbers are never reused; a number whose
// command is gone stays in the list.
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
	kindMeetMachine
	kindPartMachine
	kindUnlinkMachine
)

// longest is how many bytes a command of a kind may have.
func (k kind) longest() int {
	switch k {
	case kindAddVenv, kindRecordBuild, kindPutFunction:
		return MaxLongCommand
	}
	return MaxCommand
}

// moment is when a command takes effect: its place in the log, and the time at
// which it was proposed.
type moment struct {
	index uint64
	at    Timestamp
}

// Proposal is what the proposer chooses for a command. Both fields are filled in
// when they are zero.
type Proposal struct {
	// Request identifies the command. Set it to resend a command whose outcome is
	// unknown: if the first one was applied, its recorded outcome is the answer.
	Request RequestID
	// At is when the command is proposed.
	At Timestamp
}

func (p Proposal) proposal() Proposal { return p }

// command is the payload of one kind. The methods are pure functions of their
// arguments, on every replica alike.
type command interface {
	kind() kind
	proposal() Proposal
	// bounds gives errBounds for fields that no proposer of ours sends.
	bounds() error
	// apply changes the tables and gives the outcome. It either changes nothing or
	// all that the outcome says.
	apply(t tables, m moment) any
}

// spec knows how to read the payload and the recorded outcome of a kind.
type spec struct {
	command func([]byte) (command, error)
	outcome func([]byte) (any, error)
}

var specs = map[kind]spec{
	kindInitCluster:      specOf[initCluster, initOutcome](),
	kindRegisterNode:     specOf[RegisterNode, RegisterOutcome](),
	kindMarkNode:         specOf[MarkNode, MarkNodeOutcome](),
	kindClaimSession:     specOf[ClaimSession, ClaimOutcome](),
	kindMarkLost:         specOf[MarkLost, MarkLostOutcome](),
	kindRebuildSession:   specOf[RebuildSession, RebuildOutcome](),
	kindAckLoss:          specOf[AckLoss, AckOutcome](),
	kindTouchSessions:    specOf[TouchSessions, TouchOutcome](),
	kindCloseSession:     specOf[CloseSession, CloseOutcome](),
	kindRenameSession:    specOf[RenameSession, RenameOutcome](),
	kindCreateActor:      specOf[CreateActor, CreateActorOutcome](),
	kindAddActorToken:    specOf[AddActorToken, TokenOutcome](),
	kindRevokeActorToken: specOf[RevokeActorToken, TokenOutcome](),
	kindEndActor:         specOf[EndActor, EndActorOutcome](),
	kindCreateToken:      specOf[CreateToken, CreateTokenOutcome](),
	kindUseToken:         specOf[UseToken, UseTokenOutcome](),
	kindRevokeToken:      specOf[RevokeToken, RevokeTokenOutcome](),
	kindRevokeIdentity:   specOf[RevokeIdentity, RevokeIdentityOutcome](),
	kindSetTrust:         specOf[SetTrust, TrustOutcome](),
	kindSetGossipKeys:    specOf[SetGossipKeys, GossipKeysOutcome](),
	kindDrainNode:        specOf[DrainNode, TendOutcome](),
	kindLabelNode:        specOf[LabelNode, TendOutcome](),
	kindRemoveNode:       specOf[RemoveNode, TendOutcome](),
	kindReserveKey:       specOf[ReserveKey, ReserveKeyOutcome](),
	kindRecoverMesh:      specOf[recoverMesh, recoverOutcome](),
	kindAddVenv:          specOf[AddVenv, VenvOutcome](),
	kindRemoveVenv:       specOf[RemoveVenv, VenvOutcome](),
	kindRecordBuild:      specOf[RecordBuild, VenvOutcome](),
	kindDropBuild:        specOf[DropBuild, VenvOutcome](),
	kindPutFunction:      specOf[PutFunction, FunctionOutcome](),
	kindRemoveFunction:   specOf[RemoveFunction, FunctionOutcome](),
	kindPutServer:        specOf[PutServer, ServerOutcome](),
	kindRemoveServer:     specOf[RemoveServer, ServerOutcome](),
	kindLinkMachine:      specOf[LinkMachine, MachineOutcome](),
	kindMeetMachine:      specOf[MeetMachine, MachineOutcome](),
	kindPartMachine:      specOf[PartMachine, MachineOutcome](),
	kindUnlinkMachine:    specOf[UnlinkMachine, MachineOutcome](),
}

func specOf[C command, O any]() spec {
	return spec{
		command: func(b []byte) (command, error) { return decodeStrict[C](b) },
		outcome: func(b []byte) (any, error) { return decodeStrict[O](b) },
	}
}

// strict reads exactly one JSON value without unknown fields: what this level
// does not know must not be half understood.
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

// envelope is one command as it stands on the log: level (1 byte), kind (1),
// request id (16), time (8, big-endian nanoseconds), then the payload as JSON.
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

// decodeEnvelope reads the header only. The payload still points into b.
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

// encodeCommand writes a command for a mesh of a level.
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
