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

// closeTime bounds how long Close waits for what it killed.
const closeTime = 10 * time.Second

// Config says what a container shall be.
type Config struct {
	// Name is for log lines. It need not be unique.
	Name string
	// Workspace is the directory that code works in; it must exist. It has the same
	// absolute path inside and outside.
	Workspace string
	// Hide lists files and directories that code shall not see, such as the node's
	// data. The workspace may lie below one. What does not exist is passed over.
	Hide []string
	// Show lists directories below hidden ones that code may read and may not
	// change. What does not exist when the container is opened stays hidden; what is
	// made in a shown one later can be seen.
	Show []string
	// Limits bounds the container as a whole.
	Limits Limits
	// Leash bounds how long code runs without a word of the node; nil for no bound.
	Leash *Leash
	// Log takes what people should know; nil drops it.
	Log *slog.Logger
	// Self is the argv that starts a keeper. Default: this program, with
	// KeeperArgument.
	Self []string
	// NoNamespaces and NoCgroups make the container do without, as on a machine
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

// Container is what one actor's code runs inside. A keeper process, which is this
// program started again, is the init of the container's own pid namespace and has
// its own mounts, its own /proc and its own user namespace. Where the machine
// refuses that, the keeper is a plain child subreaper. Every process of the actor
// is the keeper's descendant and ends with it.
//
// Its methods may be called at the same time.
type Container struct {
	cfg      Config
	log      *slog.Logger
	tag      uint64
	enforced Enforced
	keeper   *keeperProcess
	link     *link
	watch    *watcher
	cgroups  *containerCgroups // nil without
	sampler  *sampler          // nil when nothing is sampled
	devNull  *os.File
	claims   oomClaims // of what the container's own control group counts

	spawning chan struct{} // holds one token while a spawn is under way
	readEnd  chan struct{} // closed when the keeper's socket has ended
	done     chan struct{}

	mu       sync.Mutex
	lastID   uint64
	pending  *pendingSpawn
	spawned  map[uint64]*Process // by order, until the exit is reported
	living   map[*Process]bool
	members  map[int]*group // by pid
	groups   map[*group]bool
	closing  bool
	emptied  chan struct{} // closed by the last of living once closing is set
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

// Done is closed when the keeper has died, and with it what the container held.
// The container must still be closed.
func (c *Container) Done() <-chan struct{} { return c.done }

// Alive tells whether the container can be used. Of one whose keeper has died it is false
// before the deaths of what it held can be seen, and so before Done is closed.
func (c *Container) Alive() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if c.link.hungUp() {
		return false
	}
	// What a keeper holds can die while a thread of it still has the link.
	s, err := readStat(c.keeper.pid)
	return err == nil && !s.exiting && !s.dead()
}

// Enforced tells what really holds for this container.
func (c *Container) Enforced() Enforced {
	e := c.enforced
	e.Notes = slices.Clone(e.Notes)
	return e
}

// Stir begins what the first Add after a while waits for: the system lets every processor
// come to rest once before a process may change its control group, which takes 5 to 20 ms
// on an idle machine, and is then spared for about as long. Who is about to make a process
// and add it calls Stir on another goroutine meanwhile; it returns when that is over, and
// changes nothing.
func (c *Container) Stir() error {
	select {
	case <-c.keeper.ended: // its number may be another's
		return errClosed
	default:
	}
	if c.cgroups == nil {
		return nil
	}
	if err := c.cgroups.stir(c.keeper.pid); err != nil && !gone(err) {
		return fmt.Errorf("sandbox: stirring container %s: %w", c.cfg.Name, err)
	}
	return nil
}

// NewGroup makes an empty group. The name is for log lines and errors. What a
// limit is enforced by is told by Enforced; a limit that cannot be enforced is no
// error.
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

// joined notes that a process belongs to a group now.
func (c *Container) joined(pid int, g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[pid] = g
}

// left notes that a group is gone.
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

// mourn waits for the keeper's end and makes sure that nothing outlives it.
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

// killRest kills what the kernel does not kill together with the keeper.
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

// leaders gives copies of the pidfds of process groups that the container's
// groups know; the caller closes them.
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

// Close kills the keeper and everything in the container, waits for the ends and
// removes what was made for it. It is idempotent.
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
