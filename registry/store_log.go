package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// One entry of the log: version (1 byte), type (1), index (8), term (8), time of
// append (8, nanoseconds, 0 for none), length of the extensions (4), extensions,
// data, and the CRC-32C of all of it (4). Numbers are big-endian.
const (
	entryVersion = 1
	entryHeader  = 1 + 1 + 8 + 8 + 8 + 4
	entrySum     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Keys are big-endian, so that entries are sorted by index.
func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func encodeEntry(e *raft.Log) []byte {
	b := make([]byte, 0, entryHeader+len(e.Extensions)+len(e.Data)+entrySum)
	b = append(b, entryVersion, byte(e.Type))
	b = binary.BigEndian.AppendUint64(b, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	appended := int64(0)
	if !e.AppendedAt.IsZero() {
		appended = e.AppendedAt.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(appended))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Extensions)))
	b = append(b, e.Extensions...)
	b = append(b, e.Data...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeEntry copies everything out of b, which may be part of the file's memory map.
func decodeEntry(b []byte, index uint64, to *raft.Log) error {
	if len(b) < entryHeader+entrySum {
		return fmt.Errorf("%w: entry %d of the log has %d bytes", ErrDamaged, index, len(b))
	}
	body, sum := b[:len(b)-entrySum], binary.BigEndian.Uint32(b[len(b)-entrySum:])
	if crc32.Checksum(body, castagnoli) != sum {
		return fmt.Errorf("%w: the sum of entry %d of the log does not match", ErrDamaged, index)
	}
	if body[0] != entryVersion || binary.BigEndian.Uint64(body[2:10]) != index {
		return fmt.Errorf("%w: entry %d of the log is version %d, number %d",
			ErrDamaged, index, body[0], binary.BigEndian.Uint64(body[2:10]))
	}
	rest := body[entryHeader:]
	extensions := binary.BigEndian.Uint32(body[26:30])
	if uint64(extensions) > uint64(len(rest)) {
		return fmt.Errorf("%w: entry %d of the log has extensions beyond its end", ErrDamaged, index)
	}
	*to = raft.Log{
		Index: index,
		Term:  binary.BigEndian.Uint64(body[10:18]),
		Type:  raft.LogType(body[1]),
		Data:  append([]byte(nil), rest[extensions:]...),
	}
	if extensions > 0 {
		to.Extensions = append([]byte(nil), rest[:extensions]...)
	}
	if appended := int64(binary.BigEndian.Uint64(body[18:26])); appended != 0 {
		to.AppendedAt = time.Unix(0, appended)
	}
	return nil
}

// IsMonotonic tells raft that this log has no gaps.
func (s *store) IsMonotonic() bool { return true }

// FirstIndex returns the index of the oldest entry; 0 for an empty log.
func (s *store) FirstIndex() (uint64, error) {
	return s.edge(func(c *bbolt.Cursor) ([]byte, []byte) { return c.First() })
}

// LastIndex returns the index of the newest entry; 0 for an empty log.
func (s *store) LastIndex() (uint64, error) {
	return s.edge(func(c *bbolt.Cursor) ([]byte, []byte) { return c.Last() })
}

func (s *store) edge(move func(*bbolt.Cursor) (key, value []byte)) (index uint64, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if key, _ := move(tx.Bucket(bucketLog).Cursor()); key != nil {
			index = binary.BigEndian.Uint64(key)
		}
		return nil
	})
	return index, err
}

// GetLog reads one entry. It returns raft.ErrLogNotFound if there is none.
func (s *store) GetLog(index uint64, to *raft.Log) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket(bucketLog).Get(logKey(index))
		if value == nil {
			return raft.ErrLogNotFound
		}
		return decodeEntry(value, index, to)
	})
}

// StoreLog appends or replaces one entry.
func (s *store) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// errGap: an entry would leave a gap in the log. raft never causes it, because it deletes
// entries before it replaces them.
var errGap = errors.New("registry: the entry does not follow the last one")

// StoreLogs appends entries, all or none, with one sync.
func (s *store) StoreLogs(entries []*raft.Log) error {
	return s.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLog)
		// The log grows only at its end, so pages need no room for inserts.
		b.FillPercent = 0.9
		var last uint64
		if key, _ := b.Cursor().Last(); key != nil {
			last = binary.BigEndian.Uint64(key)
		}
		for _, e := range entries {
			if last != 0 && e.Index > last+1 {
				return fmt.Errorf("%w: %d after %d", errGap, e.Index, last)
			}
			if err := b.Put(logKey(e.Index), encodeEntry(e)); err != nil {
				return err
			}
			last = max(last, e.Index)
		}
		return nil
	})
}

// DeleteRange deletes the entries from one index to another, both included. raft deletes only
// at the beginning or the end, so no gap arises.
func (s *store) DeleteRange(from, to uint64) error {
	return s.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLog)
		first, _ := b.Cursor().First()
		last, _ := b.Cursor().Last()
		if first == nil {
			return nil
		}
		from, to := max(from, binary.BigEndian.Uint64(first)), min(to, binary.BigEndian.Uint64(last))
		for index := from; index <= to; index++ {
			if err := b.Delete(logKey(index)); err != nil {
				return err
			}
		}
		return nil
	})
}
