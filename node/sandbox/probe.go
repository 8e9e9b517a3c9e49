package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Check is one thing that this machine can or cannot enforce.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail is the result in one line.
	Detail string `json:"detail"`
	// Advice says what to do if the check failed; else it is empty.
	Advice string `json:"advice,omitempty"`
}

// probeTime bounds each test of Probe.
const probeTime = 20 * time.Second

const (
	adviseNamespaces = "allow user namespaces: sysctl user.max_user_namespaces above 0, and kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0 where the system has them"
	adviseProc       = "in a container of another kind, run it with an unmasked /proc"
	adviseCgroups    = "run the node as a service with Delegate=yes, or as root, with /sys/fs/cgroup writable and the memory, pids and cpu controllers on"
	adviseKernel     = "use a newer kernel, or one with this feature built in"
)

// Probe tests what this machine can enforce. It really tries each thing, in a container that
// it removes afterwards. It takes about a second.
func Probe(ctx context.Context) []Check {
	var checks []Check
	c, remove, err := probeContainer(ctx)
	if err != nil {
		checks = append(checks, Check{Name: "container", Detail: err.Error(),
			Advice: "see whether this program may start itself and write to its temporary directory"})
	} else {
		checks = append(checks, isolation(c.Enforced())...)
		checks = append(checks, tried("freeze and kill", "", func() (string, error) { return tryFreezeAndKill(ctx, c) }))
		checks = append(checks, tried("memory limit", adviseCgroups, func() (string, error) { return tryMemoryLimit(ctx, c) }))
		checks = append(checks, tried("process limit", adviseCgroups, func() (string, error) { return tryProcessLimit(ctx, c) }))
		checks = append(checks, tried("nothing left behind", "", func() (string, error) { return "closed and removed", remove() }))
	}
	checks = append(checks, tried("landlock", adviseKernel, landlock))
	return append(checks, tried("seccomp", adviseKernel, seccomp))
}

func tried(name, advice string, try func() (string, error)) Check {
	detail, err := try()
	if err != nil {
		return Check{Name: name, Detail: err.Error(), Advice: advice}
	}
	return Check{Name: name, OK: true, Detail: detail}
}

func probeContainer(ctx context.Context) (*Container, func() error, error) {
	dir, err := os.MkdirTemp("", "locus-probe-")
	if err != nil {
		return nil, nil, err
	}
	workspace := dir + "/workspace"
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	c, err := Open(ctx, Config{Name: "probe", Workspace: workspace, Hide: []string{dir}, Limits: Limits{Processes: 200}})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, func() error { return errors.Join(c.Close(), os.RemoveAll(dir)) }, nil
}

// isolation returns the checks that the keeper has made at the start of a container.
func isolation(e Enforced) []Check {
	why := strings.Join(e.Notes, "; ")
	check := func(name string, ok bool, good, advice string) Check {
		if ok {
			return Check{Name: name, OK: true, Detail: good}
		}
		return Check{Name: name, Detail: "refused: " + why, Advice: advice}
	}
	cgroupKill := e.KillGroup == ByCgroup2
	return []Check{
		check("user namespace", e.UserNamespace, "code has no power outside its own", adviseNamespaces),
		check("pid namespace", e.PIDNamespace, "all of a container's processes end with it", adviseNamespaces),
		check("mount namespace", e.MountNamespace, "code has its own mounts", adviseNamespaces),
		check("own /proc", e.OwnProc, "code sees only its own processes", adviseProc),
		check("own /dev/shm", e.OwnShm, "shared memory is an agent's own", adviseNamespaces),
		check("hidden files", e.Hidden, "the node's files are out of reach", adviseNamespaces),
		check("read-only /sys", e.SysReadOnly, "code cannot leave its control groups", adviseNamespaces),
		check("overlay views", e.Views, "read-only calls get a private view of the disk", adviseKernel),
		check("cgroup kill and freeze", cgroupKill, fmt.Sprintf("by %s; processes cannot hide, and those of a node that is stopped stand still when its lease is over", e.KillGroup), adviseCgroups),
		check("processor share", e.Processors != "", fmt.Sprintf("by %s; an agent's processes have one share together, however many they are", e.Processors), adviseCgroups),
	}
}

// probeScript runs a script in a group until it ends.
func probeScript(ctx context.Context, c *Container, g Group, script string) (Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	p, err := c.Spawn(ctx, Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: Environment(c.cfg.Workspace), Group: g})
	if err != nil {
		return Exit{}, err
	}
	select {
	case <-p.Done():
		return p.Exit(), nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

func tryFreezeAndKill(ctx context.Context, c *Container) (detail string, err error) {
	g, err := c.NewGroup("probe-kill", Limits{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	p, err := c.Spawn(ctx, Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & sleep 1000"}, Env: Environment(c.cfg.Workspace), Group: g})
	if err != nil {
		return "", err
	}
	begun := time.Now()
	if err := g.Freeze(); err != nil {
		return "", err
	}
	if err := g.Kill(); err != nil {
		return "", err
	}
	took := time.Since(begun)
	select {
	case <-p.Done():
	case <-time.After(probeTime):
		return "", errStillAlive
	}
	return fmt.Sprintf("by %s, in %v", c.Enforced().KillGroup, took.Round(10*time.Microsecond)), nil
}

func tryMemoryLimit(ctx context.Context, c *Container) (detail string, err error) {
	g, err := c.NewGroup("probe-memory", Limits{Memory: 48 << 20})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	// tail buffers the last bytes of an endless input, far more than the limit.
	exit, err := probeScript(ctx, c, g, "cat /dev/zero | tail -c 400000000")
	if err != nil {
		return "", err
	}
	if g.OOMKills() == 0 {
		return "", fmt.Errorf("a program over its limit was not killed for it; its shell %s", exit)
	}
	by := c.Enforced().Memory
	if by == BySampling {
		return "", errors.New("only by looking ten times a second; a fast program can be far over it for a moment")
	}
	return "by " + string(by), nil
}

func tryProcessLimit(ctx context.Context, c *Container) (detail string, err error) {
	by := c.Enforced().GroupProcesses
	g, err := c.NewGroup("probe-processes", Limits{Processes: 8})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	exit, err := probeScript(ctx, c, g, "i=0; while [ $i -lt 16 ]; do sleep 1000 & i=$((i+1)); done; exit 99")
	if err != nil {
		return "", err
	}
	if exit.Code == 99 {
		return "", errors.New("16 processes were started under a limit of 8")
	}
	return "by " + string(by), nil
}

// landlock returns the version of Landlock that the operating system has.
func landlock() (string, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return "", fmt.Errorf("not in this kernel: %w", errno)
	}
	return fmt.Sprintf("version %d", version), nil
}

// seccomp tests whether seccomp filters are supported.
func seccomp() (string, error) {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return "", fmt.Errorf("not in this kernel: %w", errno)
	}
	return "filters can be set", nil
}
