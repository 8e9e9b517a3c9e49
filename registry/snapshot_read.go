package registry

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hashicorp/go-memdb"
)

// frameReader rebuilds a state from its frames.
type frameReader struct {
	from   *bufio.Reader
	knows  uint8 // the highest feature level
	sum    hash.Hash
	db     *memdb.MemDB
	window *window
	index  uint64
}

// all reads the head, every record and the end. Nothing may follow.
func (r *frameReader) all() error {
	k, body, err := r.next()
	if err != nil {
		return err
	}
	if k != frameHead {
		return fmt.Errorf("the first frame has kind %d", k)
	}
	h, err := decodeStrict[head](body)
	if err != nil {
		return err
	}
	r.index = h.Index

	txn := r.db.Txn(true)
	defer txn.Abort()
	for {
		sum := r.sum.Sum(nil)
		k, body, err := r.next()
		if err != nil {
			return err
		}
		if k == frameEnd {
			if !bytes.Equal(body, sum) {
				return errors.New("its sum does not match")
			}
			break
		}
		if err := r.insert(tables{txn}, k, body); err != nil {
			return err
		}
	}
	if _, err := r.from.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows its end (%v)", err)
	}
	txn.Commit()
	return nil
}

func (r *frameReader) next() (frame, []byte, error) {
	k, err := r.from.ReadByte()
	if err != nil {
		return 0, nil, whole(err)
	}
	length, err := binary.ReadUvarint(r.from)
	if err != nil {
		return 0, nil, whole(err)
	}
	if length > maxFrame {
		return 0, nil, fmt.Errorf("a frame has %d bytes, at most %d", length, maxFrame)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r.from, body); err != nil {
		return 0, nil, whole(err)
	}
	r.sum.Write(binary.AppendUvarint([]byte{k}, length))
	r.sum.Write(body)
	return frame(k), body, nil
}

// whole turns io.EOF, which a complete snapshot does not end with, into io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// insert stores a record in its table. An unknown kind is refused, because an incomplete
// state is worse than none.
func (r *frameReader) insert(t tables, k frame, body []byte) error {
	switch k {
	case frameCluster:
		if err := insertRecord(t, tableCluster, body, func(c *cluster) bool { return c.ID != "" && c.Level >= 1 }); err != nil {
			return err
		}
		return checkLevel(r.knows, t.cluster().Level)
	case frameNode:
		return insertRecord(t, tableNodes, body, func(n *Node) bool { return isLife(n.ID, n.Incarnation) })
	case frameActor:
		return insertRecord(t, tableActors, body, func(a *Actor) bool { return isToken(a.Name, maxText) })
	case frameSession:
		return insertRecord(t, tableSessions, body, func(s *Session) bool { return isKey(s.Key) && isGrant(s.Grant()) })
	case frameToken:
		return insertRecord(t, tableTokens, body, func(j *JoinToken) bool { return isToken(j.ID, maxText) })
	case frameRevocation:
		return insertRecord(t, tableRevoked, body, func(r *Revocation) bool { return isToken(r.URI, maxURI) })
	case frameTrust:
		return insertRecord(t, tableTrust, body, func(s *Trust) bool { return s.Generation > 0 })
	case frameGossip:
		return insertRecord(t, tableGossip, body, func(g *GossipKeys) bool { return g.Generation > 0 })
	case frameKey:
		return insertRecord(t, tableKeys, body, func(k *ReservedKey) bool {
			return isToken(k.Actor, maxText) && isToken(k.Key, maxKey) && k.At > 0
		})
	case frameVenv:
		return insertRecord(t, tableVenvs, body, func(v *Venv) bool { return isVenvID(v.ID) && isHash(v.Digest) })
	case frameFunction:
		return insertRecord(t, tableFunctions, body, func(f *Function) bool { return isIdentifier(f.Name) && f.Version > 0 })
	case frameServer:
		return insertRecord(t, tableServers, body, func(s *PrimitiveServer) bool {
			return isToken(s.Actor, maxText) && isIdentifier(s.Name)
		})
	case frameMachine:
		return insertRecord(t, tableMachines, body, func(m *Machine) bool {
			return isToken(m.ID, maxText) && isToken(m.Actor, maxText) && isToken(m.Name, maxText)
		})
	case frameRequest:
		return r.insertRequest(body)
	}
	return fmt.Errorf("a frame has the unknown kind %d", k)
}

func (r *frameReader) insertRequest(body []byte) error {
	record, err := decodeStrict[request](body)
	if err != nil {
		return err
	}
	last := len(r.window.order) - 1
	sound := specs[record.Kind].outcome != nil && r.window.find(record.ID) == nil && record.Index <= r.index &&
		(last < 0 || r.window.order[last].Index < record.Index)
	if !sound {
		return fmt.Errorf("a remembered request is not sound: %.200s", body)
	}
	r.window.add(&record)
	return nil
}

func insertRecord[T any](t tables, table string, body []byte, sound func(*T) bool) error {
	record, err := decodeStrict[T](body)
	if err != nil {
		return err
	}
	if !sound(&record) {
		return fmt.Errorf("a record of %s is not sound: %.200s", table, body)
	}
	t.put(table, &record)
	return nil
}
