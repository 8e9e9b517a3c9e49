package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// closeTime bounds how long Close waits for the processes that it has killed.
const closeTime = 10 * time.Second

// Config configures a container.
type Config struct {
	// Name is for log lines. It need not be unique.
	Name string
	// Workspace is the working directory of code; it must exist. It has the same absolute
	// path inside and outside.
	Workspace string
	// Hide lists files and directories that code must not see, such as the node's data.
	// The workspace may be below one of them. Paths that do not exist are ignored.
	Hide []string
	// Show lists directories below hidden ones that code may read but not change. A
	// directory must exist when the container is opened; files that are added to it later
	// are visible.
	Show []string
	// Limits bounds the container as a whole.
	Limits Limits
	// Leash freezes the code when the node does not renew its permission to run; nil
	// means no bound.
	Leash *Leash
	// Log may be nil.
	Log *slog.Logger
	// Self is the command line that starts a keeper. The default is this program with
	// KeeperArgument.
	Self []string
	// NoNamespaces and NoCgroups turn namespaces and control groups off, as on a machine
	// that refuses them.
	NoNamespaces bool
	NoCgroups    bool
}

func (c Config) validate() error {
	if !filepath.IsAbs(c.Workspace) {
		return fmt.Errorf("sandbox: the workspace %q is not an absolute path", c.Workspace)
	}
	for _, h := range c.Hide {
		if !filepath.IsAbs(h) {
			return fmt.Errorf("sandbox: the hidden path %q is not absolute", h)
		}
		if filepath.Clean(h) == filepath.Clean(c.Workspace) || filepath.Clean(h) == "/" {
			return fmt.Errorf("sandbox: %q cannot be hidden", h)
		}
	}
	for _, d := range c.Show {
		if !filepath.IsAbs(d) {
			return fmt.Errorf("sandbox: the shown path %q is not absolute", d)
		}
	}
	if c.Limits.Memory < 0 || c.Limits.Processes < 0 {
		return fmt.Errorf("sandbox: a limit is negative: %+v", c.Limits)
	}
	return nil
}

// Container isolates the code of one actor. Its keeper process, which is this program
// started again, is the init of a new pid namespace, with its own mounts, /proc and user
// namespace. On a machine that refuses namespaces the keeper is only a child subreaper.
// Every process of the actor is a descendant of the keeper and ends with it.
//
// A Container is safe for concurrent use.
type Container struct {
	cfg      Config
	log      *slog.Logger
	tag      uint64
	enforced Enforced
	keeper   *keeperProcess
	link     *link
	watch    *watcher
	cgroups  *containerCgroups // nil without control groups
	sampler  *sampler          // nil if nothing is sampled
	devNull  *os.File
	claims   oomClaims // of the kills that the container's own control group counts

	spawning chan struct{} // a lock: has one token while a spawn is in progress
	readEnd  chan struct{} // closed when the keeper's socket is at end-of-file
	done     chan struct{}

	mu       sync.Mutex
	lastID   uint64
	pending  *pendingSpawn
	spawned  map[uint64]*Process // by the id of the spawn, until the exit is reported
	living   map[*Process]bool
	members  map[int]*group // by pid
	groups   map[*group]bool
	closing  bool
	emptied  chan struct{} // closed when closing is set and living is empty
	closeOne sync.Once
	closeErr error
}

// Open starts a container. The context bounds only the start.
func Open(ctx context.Context, cfg Config) (*Container, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Self) == 0 {
		cfg.Self = []string{"/proc/self/exe", KeeperArgument}
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Workspace = filepath.Clean(cfg.Workspace)
	cfg.Hide, cfg.Show = slices.Clone(cfg.Hide), slices.Clone(cfg.Show)
	c := &Container{
		cfg:      cfg,
		log:      cfg.Log.With("container", cfg.Name),
		tag:      newContainerTag(),
		spawning: make(chan struct{}, 1),
		readEnd:  make(chan struct{}),
		done:     make(chan struct{}),
		spawned:  map[uint64]*Process{},
		living:   map[*Process]bool{},
		members:  map[int]*group{},
		groups:   map[*group]bool{},
		emptied:  make(chan struct{}),
	}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("sandbox: opening container %s: %w", cfg.Name, err)
	}
	go c.listen()
	go c.mourn()
	c.log.Debug("container opened", "keeper", c.keeper.pid, "enforced", c.enforced)
	return c, nil
}

// Done is closed when the keeper and all processes of the container have ended. The
// container must still be closed.
func (c *Container) Done() <-chan struct{} { return c.done }

// Alive reports whether the container can be used. After the keeper's death it is false
// before the deaths of the container's processes become visible, and before Done is closed.
func (c *Container) Alive() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if c.link.hungUp() {
		return false
	}
	// The container's processes can die while a thread of the keeper keeps the socket open.
	s, err := ReadStat(c.keeper.pid)
	return err == nil && !s.exiting && !s.Dead()
}

// Enforced returns what is really enforced for this container.
func (c *Container) Enforced() Enforced {
	e := c.enforced
	e.Notes = slices.Clone(e.Notes)
	return e
}

// WarmUp shortens the next Group.Add. Before a process may change its control group, the
// operating system waits for an RCU grace period, which takes 5 to 20 ms on an idle machine;
// moves within about the same time after it do not wait again. A caller that is about to
// make a process and add it to a group calls WarmUp on another goroutine meanwhile. WarmUp
// returns when the wait is over, and changes nothing.
func (c *Container) WarmUp() error {
	select {
	case <-c.keeper.ended: // its pid may have been reused
		return errClosed
	default:
	}
	if c.cgroups == nil {
		return nil
	}
	if err := c.cgroups.stir(c.keeper.pid); err != nil && !gone(err) {
		return fmt.Errorf("sandbox: moving the keeper of container %s: %w", c.cfg.Name, err)
	}
	return nil
}

// NewGroup makes an empty group. The name is for log lines and errors. A limit that cannot
// be enforced is not an error; Enforced tells how limits are enforced.
func (c *Container) NewGroup(name string, l Limits) (Group, error) {
	if l.Memory < 0 || l.Processes < 0 {
		return nil, fmt.Errorf("sandbox: group %s: a limit is negative: %+v", name, l)
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.lastID++
	id := c.lastID
	c.mu.Unlock()
	g := &group{name: name, container: c, born: -1, added: map[int]bool{}, killed: map[int]bool{}}
	if err := c.hold(g, "group-"+strconv.FormatUint(id, 10), l); err != nil {
		return nil, fmt.Errorf("sandbox: making group %s: %w", name, err)
	}
	c.mu.Lock()
	c.groups[g] = true
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return nil, errors.Join(errClosed, g.Close())
	}
	return g, nil
}

// joined records that a process belongs to a group.
func (c *Container) joined(pid int, g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[pid] = g
}

// left removes a group.
func (c *Container) left(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, g)
	for pid, in := range c.members {
		if in == g {
			delete(c.members, pid)
		}
	}
}

// mourn waits for the end of the keeper and kills everything that outlives it.
func (c *Container) mourn() {
	<-c.keeper.ended
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if !closing {
		c.log.Error("the keeper of a container died", "exit", c.keeper.exit.String())
	}
	if err := c.killRest(); err != nil {
		c.log.Error("processes of a container outlive its keeper", "error", err)
	}
	<-c.readEnd
	close(c.done)
}

// killRest kills the processes that do not end together with the keeper by themselves.
func (c *Container) killRest() error {
	var err error
	if c.cgroups != nil && c.cgroups.unified != "" {
		err = killCgroup(c.cgroups.unified)
	}
	if !c.enforced.PIDNamespace {
		leaders := c.leaders()
		err = errors.Join(err, sweep(c.tag, leaders))
		closeAll(leaders)
	}
	return err
}

// leaders returns copies of the pidfds of all process group leaders that the container's
// groups know. The caller closes them.
func (c *Container) leaders() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fds []int
	for g := range c.groups {
		if h, ok := g.holder.(*tagHolder); ok {
			fds = append(fds, h.copyLeaders()...)
		}
	}
	return fds
}

// Close kills the keeper and everything in the container, waits for the ends, and releases
// all resources. It is idempotent.
func (c *Container) Close() error {
	c.closeOne.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Container) close() error {
	c.mu.Lock()
	c.closing = true
	if len(c.living) == 0 {
		close(c.emptied)
	}
	c.mu.Unlock()
	c.keeper.kill()
	var err error
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	for _, ended := range []<-chan struct{}{c.done, c.emptied} {
		select {
		case <-ended:
		case <-limit.C:
			err = fmt.Errorf("sandbox: closing container %s: %w", c.cfg.Name, errStillAlive)
			limit.Reset(0)
		}
	}
	c.link.close()
	c.watch.close()
	c.devNull.Close()
	if err == nil {
		c.keeper.release()
	}
	c.mu.Lock()
	sampler := c.sampler
	c.mu.Unlock()
	if sampler != nil {
		sampler.close()
	}
	c.mu.Lock()
	groups := c.groups
	c.groups = map[*group]bool{}
	c.mu.Unlock()
	for g := range groups {
		err = errors.Join(err, g.dissolve())
	}
	if c.cgroups != nil {
		err = errors.Join(err, c.cgroups.remove())
	}
	return err
}
