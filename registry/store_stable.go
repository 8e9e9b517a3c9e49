package registry

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// Set writes one of raft's own values. It is on the disk when Set returns.
func (s *store) Set(key, value []byte) error {
	return s.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketStable).Put(key, value) })
}

// Get reads one of raft's own values; it is empty when there is none.
func (s *store) Get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(bucketStable).Get(key))
		return nil
	})
	return value, err
}

// SetUint64 writes one of raft's own numbers.
func (s *store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads one of raft's own numbers; it is 0 when there is none.
func (s *store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil || len(value) == 0 {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: %q holds %d bytes, want 8", ErrDamaged, key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
