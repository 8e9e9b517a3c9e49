package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Memory is the memory for this process and all that it starts, in bytes.
type Memory struct {
	Total int64
	// Available is how much more can be used before the OOM killer acts. The page cache
	// counts as available.
	Available int64
}

// MemoryReader reads the memory of the machine, or what the control groups of this process
// allow if that is less. It is not safe for concurrent use.
type MemoryReader struct {
	groups map[string]cgroupPlace
	found  time.Time // when groups were found
}

// findGroupsEvery is how often the control groups of this process are looked for. A process
// is rarely moved, and the list of its mounts takes longer to read than all else here.
const findGroupsEvery = time.Minute

// Read returns the memory of this moment.
func (r *MemoryReader) Read() (Memory, error) {
	b, err := readReady("/proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for name, to := range map[string]*int64{"MemTotal": &m.Total, "MemAvailable": &m.Available} {
		field, _ := procField(b, name)
		kib, err := strconv.ParseInt(strings.TrimSuffix(field, " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("sandbox: %s in /proc/meminfo: %w", name, err)
		}
		*to = kib << 10
	}
	if r.groups == nil || time.Since(r.found) >= findGroupsEvery {
		if err := r.findGroups(); err != nil {
			return Memory{}, err
		}
	}
	for controller, files := range memoryFiles {
		if p, ok := r.groups[controller]; ok {
			m = m.within(p, files)
		}
	}
	return m, nil
}

func (r *MemoryReader) findGroups() error {
	mounts, err := readReady("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	own, err := readReady("/proc/self/cgroup")
	if err != nil {
		return err
	}
	r.groups, r.found = parseCgroupPlaces(string(mounts), string(own)), time.Now()
	return nil
}

// cgroupMemory has the names of a control group's files with the limit and the usage of
// memory, and of the fields of memory.stat that count the page cache.
type cgroupMemory struct {
	limit, usage string
	cached       []string
}

// memoryFiles has the names for both versions of control groups.
var memoryFiles = map[string]cgroupMemory{
	"":       {"memory.max", "memory.current", []string{"active_file", "inactive_file"}},
	"memory": {"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}},
}

// within returns m reduced to what a control group and those above it allow. A group that
// cannot be read, or whose limit is not below the machine's memory, is ignored.
func (m Memory) within(p cgroupPlace, files cgroupMemory) Memory {
	machine := m.Total
	for dir := p.path; ; dir = filepath.Dir(dir) {
		at := filepath.Join(p.mount, dir)
		// Most groups have no limit, so an idle node reads little more than this file.
		if limit, limited := readBytes(filepath.Join(at, files.limit)); limited && limit < machine {
			if usage, known := readBytes(filepath.Join(at, files.usage)); known {
				// The page cache is reclaimed when memory is needed.
				usage -= statFields(filepath.Join(at, "memory.stat"), files.cached)
				m.Total = min(m.Total, limit)
				m.Available = min(m.Available, max(limit-usage, 0))
			}
		}
		if dir == "/" || dir == "." {
			return m
		}
	}
}

func readBytes(file string) (int64, bool) {
	b, err := readReady(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil // "max" means no limit
}

// statFields returns the sum of some fields of a file.
func statFields(file string, names []string) (sum int64) {
	b, err := readReady(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, " ")
		if slices.Contains(names, name) {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			sum += n
		}
	}
	return sum
}
