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

// sampleEvery is how often memory is looked at where no control group bounds it.
// A look that takes long is made less often, so that looking takes a twentieth of
// the time at most.
const sampleEvery = 100 * time.Millisecond

// sampler enforces limits on memory by looking at the processes' sizes. It is one
// goroutine for a container, and exists only once a limit is set that needs it.
type sampler struct {
	container *Container
	stop      chan struct{}
	done      chan struct{}

	mu      sync.Mutex
	meters  map[uint64]*sampledMeter // by the group's tag; the container's own too
	victims map[int]time.Time        // when they were killed
}

// victimTime is how long it is remembered that the sampler killed a process of
// which nobody asks.
const victimTime = time.Minute

// sampledMeter is what the sampler knows of one group.
type sampledMeter struct {
	sampler *sampler
	limit   int64
	most    int64
	kills   int
	dying   int // the last one that was killed, until it has given back its memory
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

// sample has the sampler bound the processes that bear a tag: a group's, or the
// container's own for all of the container. A container that is closing gives nil.
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
		if err := s.look(); err != nil {
			s.container.log.Warn("memory could not be looked at", "error", err)
		}
		wait.Reset(max(sampleEvery, 20*time.Since(begun)))
	}
}

func (s *sampler) close() {
	close(s.stop)
	<-s.done
}

// forget ends the measuring of a group.
func (s *sampler) forget(m *sampledMeter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, is := range s.meters {
		if is == m {
			delete(s.meters, tag)
		}
	}
}

// killed says whether the sampler killed a process, and forgets it.
func (s *sampler) killed(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.victims[pid]
	delete(s.victims, pid)
	return was
}

// sampledProcess is one process with what it has in memory and in swap.
type sampledProcess struct {
	pid   int
	bytes int64
}

// look measures every process once, and in each group that is over its limit
// kills the largest process, as the kernel does.
func (s *sampler) look() error {
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
		s.judge(m, byTag[tag])
	}
	return nil
}

// judge notes what a group uses and kills its largest process if that is too
// much. s.mu is held.
func (s *sampler) judge(m *sampledMeter, ps []sampledProcess) {
	use, largest := total(ps)
	if use > m.limit {
		// Copies of a session share most of their memory. Counting that once costs
		// more, so it is done only when it may decide.
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

// memoryOf gives a process's own memory and swap in bytes. With shared, what is
// shared with n others counts as 1/n.
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
			continue // a zombie has no memory, an older kernel not all fields
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(field, "kB")), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}
