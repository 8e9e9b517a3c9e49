package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// playNode is a node that opens a container in the workspace of its first
// argument, starts the five victims with the mark of its second, and then waits
// to be killed.
func playNode() error {
	workspace, mark := os.Getenv("WORKSPACE"), os.Getenv("MARK")
	c, err := Open(context.Background(), Config{
		Name: "doomed", Workspace: workspace, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		NoNamespaces: os.Getenv("NO_NAMESPACES") != "", NoCgroups: os.Getenv("NO_CGROUPS") != "",
	})
	if err != nil {
		return err
	}
	g, err := c.NewGroup("doomed", Limits{})
	if err != nil {
		return err
	}
	_, err = c.Spawn(context.Background(), Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", fiveVictims(mark)}, Env: Environment(workspace), Group: g,
	})
	if err != nil {
		return err
	}
	dir := ""
	if c.cgroups != nil {
		dir = c.cgroups.unified
	}
	fmt.Println(c.keeper.pid, dir)
	select {} // the deadlock detector is kept off by the container's goroutines
}

// playEater takes memory, MEGABYTES of it, and then waits.
func playEater() error {
	n, err := strconv.Atoi(os.Getenv("MEGABYTES"))
	if err != nil {
		return err
	}
	var all [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	fmt.Println("full", len(all))
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// playWeaver has one thread more for each byte that it reads, and says so.
func playWeaver() error {
	one := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(one); err != nil {
			return nil
		}
		made := make(chan int)
		go func() {
			runtime.LockOSThread() // so that none is used twice
			made <- unix.Gettid()
			select {}
		}()
		fmt.Println(<-made)
	}
}

// playThief tries to get at what it must not, and prints what it got.
func playThief() error {
	if os.Getppid() != 1 || os.Getpid() > 1000 {
		return errors.New("a thief works only in a pid namespace of the tests' own")
	}
	got := func(what string) { fmt.Println("GOT", what) }
	secret := os.Getenv("SECRET_FILE")
	open := func() bool {
		_, err := os.ReadFile(secret)
		return err == nil
	}
	if open() {
		got("the hidden file")
	}
	if _, err := os.Stat(os.Getenv("SECRET_SINGLE")); err == nil {
		if b, err := os.ReadFile(os.Getenv("SECRET_SINGLE")); err == nil && len(b) > 0 {
			got("the hidden single file")
		}
	}
	if os.WriteFile(secret+".new", nil, 0o600) == nil {
		got("a file written into the hidden directory")
	}
	dir := secret[:strings.LastIndex(secret, "/")]
	if err := unix.Unmount(dir, unix.MNT_DETACH); err == nil || open() {
		got("the cover taken off")
	}
	// The same as the root of a further namespace of its own.
	for _, ns := range []string{"-Um", "-Umr", "-m"} {
		out, err := exec.Command("unshare", ns, "sh", "-c", "umount -l "+dir+"; cat "+secret).Output()
		if err == nil && len(out) > 0 {
			got("the cover taken off in a namespace by unshare " + ns)
		}
	}
	pids, err := allPids()
	if err != nil {
		return err
	}
	for _, pid := range append(pids, 1) {
		if pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"environ", "mem", "maps", "root/" + secret, "cwd/" + secret} {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				continue
			}
			b := make([]byte, 1<<16)
			n, _ := f.Read(b)
			f.Close()
			if n > 0 {
				got(fmt.Sprintf("/proc/%d/%s", pid, file))
			}
		}
		if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
			for _, fd := range fds {
				if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); err == nil {
					got(fmt.Sprintf("descriptor %s of %d: %s", fd.Name(), pid, to))
				}
			}
		}
		if err := unix.PtraceSeize(pid); err == nil {
			got(fmt.Sprintf("ptrace of %d", pid))
		}
	}
	if err := attackKeeper(); err != nil {
		got("the keeper: " + err.Error())
	}
	for _, file := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs"} {
		if os.WriteFile(file, []byte("0"), 0) == nil {
			got("out of its control group by " + file)
		}
	}
	if out, err := exec.Command("unshare", "-UmrC", "sh", "-c", "mount -t cgroup2 none /mnt && echo 0 > /mnt/cgroup.procs").CombinedOutput(); err == nil {
		got("a control group file system: " + string(out))
	}
	fmt.Println("DONE")
	return nil
}

// attackKeeper sends the keeper every signal there is.
func attackKeeper() error {
	for s := unix.Signal(1); s < 65; s++ {
		_ = unix.Kill(1, s)
		_ = unix.Tgkill(1, 1, s)
	}
	if err := unix.Kill(1, 0); errors.Is(err, unix.ESRCH) {
		return errors.New("it is gone")
	}
	return nil
}
