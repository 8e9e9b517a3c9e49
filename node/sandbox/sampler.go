package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sampleEvery is the interval at which memory is measured if no control group limits it. If
// a measurement takes long, the interval grows, so that measuring takes a twentieth of the
// time at most.
const sampleEvery = 100 * time.Millisecond

// sampler enforces memory limits by measuring the processes. It is one goroutine per
// container, started by the first limit that needs it.
type sampler struct {
	container *Container
	stop      chan struct{}
	done      chan struct{}

	mu      sync.Mutex
	meters  map[uint64]*sampledMeter // by the tag of a group or of the container
	victims map[int]time.Time        // by pid: when the sampler killed it
}

// victimTime is how long a victim is remembered if killed is not called for it.
const victimTime = time.Minute

// sampledMeter is the sampler's state for one group.
type sampledMeter struct {
	sampler *sampler
	limit   int64
	most    int64
	kills   int
	dying   int // the last victim, until its memory is released
}

func (m *sampledMeter) peak() int64 {
	m.sampler.mu.Lock()
	defer m.sampler.mu.Unlock()
	return m.most
}

func (m *sampledMeter) ooms() int {
	m.sampler.mu.Lock()
	defer m.sampler.mu.Unlock()
	return m.kills
}

// sample makes the sampler limit the processes with a group's tag, or, with the container's
// tag, all processes of the container. It returns nil if the container is closing.
func (c *Container) sample(groupTag uint64, limit int64) meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	if c.sampler == nil {
		c.sampler = &sampler{
			container: c, stop: make(chan struct{}), done: make(chan struct{}),
			meters: map[uint64]*sampledMeter{}, victims: map[int]time.Time{},
		}
		go c.sampler.run()
	}
	s := c.sampler
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &sampledMeter{sampler: s, limit: limit}
	s.meters[groupTag] = m
	return m
}

func (s *sampler) run() {
	defer close(s.done)
	wait := time.NewTimer(sampleEvery)
	defer wait.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-wait.C:
		}
		begun := time.Now()
		if err := s.sample(); err != nil {
			s.container.log.Warn("cannot measure memory", "error", err)
		}
		wait.Reset(max(sampleEvery, 20*time.Since(begun)))
	}
}

func (s *sampler) close() {
	close(s.stop)
	<-s.done
}

// forget stops measuring a group.
func (s *sampler) forget(m *sampledMeter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, is := range s.meters {
		if is == m {
			delete(s.meters, tag)
		}
	}
}

// killed reports whether the sampler has killed a process, and forgets it.
func (s *sampler) killed(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.victims[pid]
	delete(s.victims, pid)
	return was
}

// sampledProcess is one process with its memory and swap.
type sampledProcess struct {
	pid   int
	bytes int64
}

// sample measures every process once, and kills the largest process of each group that is
// over its limit, as the OOM killer does.
func (s *sampler) sample() error {
	pids, err := allPids()
	if err != nil {
		return err
	}
	byTag := map[uint64][]sampledProcess{}
	for _, pid := range pids {
		t, err := tagOf(pid)
		if err != nil || t.container != s.container.tag || pid == s.container.keeper.pid {
			continue
		}
		bytes, err := memoryOf(pid, false)
		if err != nil {
			continue // it has ended
		}
		p := sampledProcess{pid, bytes}
		byTag[t.container] = append(byTag[t.container], p)
		if t.group != t.container {
			byTag[t.group] = append(byTag[t.group], p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, when := range s.victims {
		if time.Since(when) > victimTime {
			delete(s.victims, pid)
		}
	}
	for tag, m := range s.meters {
		s.enforce(m, byTag[tag])
	}
	return nil
}

// enforce records a group's memory and kills its largest process if the group is over its
// limit. The caller holds s.mu.
func (s *sampler) enforce(m *sampledMeter, ps []sampledProcess) {
	use, largest := total(ps)
	if use > m.limit {
		// Copies of a session share most of their memory. Measuring without counting shared
		// memory twice is more expensive, so it is done only if it can matter.
		for i := range ps {
			if bytes, err := memoryOf(ps[i].pid, true); err == nil {
				ps[i].bytes = bytes
			}
		}
		use, largest = total(ps)
	}
	m.most = max(m.most, use)
	if !slices.ContainsFunc(ps, func(p sampledProcess) bool { return p.pid == m.dying && p.bytes > 0 }) {
		m.dying = 0
	}
	if use <= m.limit || largest == 0 || m.dying != 0 {
		return
	}
	if err := unix.Kill(largest, unix.SIGKILL); err == nil {
		m.kills++
		m.dying = largest
		s.victims[largest] = time.Now()
	}
}

func total(ps []sampledProcess) (sum int64, largest int) {
	most := int64(-1)
	for _, p := range ps {
		sum += p.bytes
		if p.bytes > most {
			most, largest = p.bytes, p.pid
		}
	}
	return sum, largest
}

// memoryOf returns a process's memory and swap in bytes. With shared set, memory that n
// processes share counts as 1/n.
func memoryOf(pid int, shared bool) (int64, error) {
	file, names := "/status", []string{"RssAnon", "RssShmem", "VmSwap"}
	if shared {
		file, names = "/smaps_rollup", []string{"Pss_Anon", "Pss_Shmem", "SwapPss"}
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + file)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, name := range names {
		field, ok := procField(b, name)
		if !ok {
			continue // a zombie has no memory, and older versions of Linux lack some fields
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(field, "kB")), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}
