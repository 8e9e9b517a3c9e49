package registry

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// Set stores a value of raft, synced to disk.
func (s *store) Set(key, value []byte) error {
	return s.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketStable).Put(key, sealValue(key, value)) })
}

// Get reads a value of raft; empty if there is none.
func (s *store) Get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value, err = openValue(key, tx.Bucket(bucketStable).Get(key))
		return err
	})
	return value, err
}

// SetUint64 stores a number of raft, synced to disk.
func (s *store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads a number of raft; 0 if there is none.
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

// sealValue appends the CRC-32C of the key and value: a term with a flipped bit could make
// this node vote twice.
func sealValue(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(value), valueSum(key, value))
}

// openValue checks the CRC and returns a copy of the value; nil for an absent one.
func openValue(key, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	at := len(sealed) - entrySum
	if at < 0 || valueSum(key, sealed[:at]) != binary.BigEndian.Uint32(sealed[at:]) {
		return nil, fmt.Errorf("%w: the sum of %q does not match", ErrDamaged, key)
	}
	return bytes.Clone(sealed[:at]), nil
}

func valueSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func verifyValues(b *bbolt.Bucket) error {
	return b.ForEach(func(key, sealed []byte) error {
		_, err := openValue(key, sealed)
		return err
	})
}
