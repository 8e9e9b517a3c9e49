package sandbox

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// KeeperArgument, as the only argument, makes a program that calls RunKeeperIfAsked run as
// a keeper.
const KeeperArgument = "--locus-sandbox-keeper"

// keeperLink is the descriptor of a keeper's socket.
const keeperLink = 3

// RunKeeperIfAsked must be the first call in main, and in TestMain of packages that open
// containers. If this process was started as a keeper, it runs the keeper and exits;
// otherwise it does nothing.
func RunKeeperIfAsked() {
	if len(os.Args) == 2 && os.Args[1] == viewTrialArgument {
		if err := tryOverlay(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) != 2 || os.Args[1] != KeeperArgument {
		return
	}
	kind, err := unix.GetsockoptInt(keeperLink, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintln(os.Stderr, "locus: "+KeeperArgument+" is for the node's own use")
		os.Exit(2)
	}
	if err := runKeeper(); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keeper is the process that starts and reaps a container's processes: the init of its pid
// namespace, or a child subreaper.
type keeper struct {
	link       *link
	namespaces bool
	tag        uint64
	devNull    *os.File

	// mu is held from the start of a child until the container has acknowledged it, so that
	// the child is not reaped and its pid not reused before the container has read it.
	mu       sync.Mutex
	children map[int]uint64 // pid in the keeper's namespace -> id of the spawn
}

func runKeeper() error {
	// No command may inherit other descriptors that the node's parent left open.
	if err := unix.CloseRange(keeperLink, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(keeperLink)
	}
	deafen()
	l, err := newLink(os.NewFile(keeperLink, "container"))
	if err != nil {
		return err
	}
	m, fds, err := l.read()
	if err != nil {
		return fmt.Errorf("reading the setup: %w", err)
	}
	if m.Kind != messageSetup || m.Setup == nil || m.Setup.Leash && len(fds) != 2 {
		return fmt.Errorf("the first message is %q with %d files", m.Kind, len(fds))
	}
	k := &keeper{link: l, namespaces: m.Setup.Namespaces, tag: m.Setup.Tag, children: map[int]uint64{}}
	ready := k.setUp(m.Setup)
	if err := l.write(message{Kind: messageReady, Ready: ready}); err != nil || ready.Fatal != "" {
		return err
	}
	go k.reap()
	if m.Setup.Leash {
		go func() {
			if err := heed(os.NewFile(uintptr(fds[0]), "leash"), os.NewFile(uintptr(fds[1]), "freeze")); err != nil {
				fmt.Fprintln(os.Stderr, "keeper: code may run on when the node is stopped:", err)
			}
		}()
	}
	err = k.serve()
	if !k.namespaces {
		// In a pid namespace the operating system does this when the init ends.
		sweep(k.tag, nil, os.Getpid())
	}
	return err
}

// deafen makes the keeper ignore every signal that can be caught. The init of a pid
// namespace does not get signals without a handler, but Go's runtime handles nearly all,
// and code inside runs as the keeper's user, so it could send them.
func deafen() {
	drop := make(chan os.Signal, 1)
	for n := syscall.Signal(1); n < 65; n++ {
		if n != syscall.SIGCHLD {
			signal.Notify(drop, n)
		}
	}
}

// setUp sets up the inside of the container. Failures are reported and do not stop the rest,
// except those without which the keeper cannot work.
func (k *keeper) setUp(o *setupOrder) *readyReport {
	r := &readyReport{}
	fatal := func(doing string, err error) *readyReport {
		r.Fatal = fmt.Sprintf("%s: %v", doing, err)
		return r
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fatal("opening the null device", err)
	}
	k.devNull = null
	if err := setKeeperLimits(o.Tag); err != nil {
		return fatal("setting limits", err)
	}
	// Not dumpable, so that no process of the same user can access the keeper's memory and
	// descriptors. For an ordinary user in a namespace the operating system ensures that by
	// itself, and PR_SET_DUMPABLE would keep the keeper from writing the user mappings of a
	// new process.
	if !k.namespaces || os.Geteuid() == 0 {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fatal("protecting the keeper's memory", err)
		}
	}
	if k.namespaces {
		makeInside(o, r)
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fatal("becoming a subreaper", err)
	}
	syscall.Umask(0o022)
	return r
}

// serve executes the container's orders until its socket is closed.
func (k *keeper) serve() error {
	for {
		m, fds, err := k.link.read()
		if err != nil {
			return nil
		}
		if m.Kind != messageSpawn || m.Spawn == nil {
			closeAll(fds)
			return fmt.Errorf("unexpected message %q", m.Kind)
		}
		err = k.spawn(m.ID, m.Spawn, fds)
		closeAll(fds)
		if err != nil {
			return err
		}
	}
}
