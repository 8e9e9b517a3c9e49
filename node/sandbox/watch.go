package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher tells when processes have ended. However many there are, it costs one
// goroutine, which sleeps in the runtime's own poller, and one descriptor beside
// the processes' own.
type watcher struct {
	file *os.File // the epoll descriptor
	raw  syscall.RawConn
	done chan struct{}

	mu     sync.Mutex
	ended  map[int]func() // pidfd -> what to do at its end
	closed bool
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: watching processes: %w", err)
	}
	// Non-blocking means for the runtime that it may wait on the descriptor.
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

// add calls ended once, on a goroutine of its own, when the process has ended.
// The pidfd must stay open until then, or until close has returned.
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
	// When that fails the descriptor is closed already, and was removed by that.
	_ = w.raw.Control(func(fd uintptr) {
		_ = unix.EpollCtl(int(fd), unix.EPOLL_CTL_DEL, pidfd, nil)
	})
	w.mu.Unlock()
	if ended != nil {
		go ended()
	}
}

// close stops watching. What has not ended by then is told nothing.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.file.Close()
	<-w.done
}
