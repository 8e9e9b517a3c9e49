package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher notices the ends of processes, by epoll on their pidfds. For any number of
// processes it needs one goroutine, which waits in the runtime's poller, and one descriptor
// besides the pidfds.
type watcher struct {
	file *os.File // the epoll descriptor
	raw  syscall.RawConn
	done chan struct{}

	mu     sync.Mutex
	ended  map[int]func() // pidfd -> the function to call at the process's end
	closed bool
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: watching processes: %w", err)
	}
	// The runtime's poller accepts only non-blocking descriptors.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sandbox: watching processes: %w", err)
	}
	f := os.NewFile(uintptr(fd), "processes")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("sandbox: watching processes: %w", err)
	}
	w := &watcher{file: f, raw: raw, done: make(chan struct{}), ended: map[int]func(){}}
	go w.run()
	return w, nil
}

// add calls ended once, on a new goroutine, when the process has ended. The pidfd must stay
// open until then, or until close has returned.
func (w *watcher) add(pidfd int, ended func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pidfd)}
	var err error
	if cerr := w.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(fd), unix.EPOLL_CTL_ADD, pidfd, &ev)
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("sandbox: watching a process: %w", err)
	}
	w.ended[pidfd] = ended
	return nil
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(fd), events, 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil {
			return // closed
		}
		for _, ev := range events[:max(n, 0)] {
			w.fire(int(ev.Fd))
		}
	}
}

func (w *watcher) fire(pidfd int) {
	w.mu.Lock()
	ended := w.ended[pidfd]
	delete(w.ended, pidfd)
	// This fails only if a descriptor is closed, which has removed it.
	_ = w.raw.Control(func(fd uintptr) {
		_ = unix.EpollCtl(int(fd), unix.EPOLL_CTL_DEL, pidfd, nil)
	})
	w.mu.Unlock()
	if ended != nil {
		go ended()
	}
}

// close stops watching. It does not call ended for processes that still run.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.file.Close()
	<-w.done
}
