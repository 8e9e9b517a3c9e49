package sandbox

import (
	"fmt"
	"slices"
)

// Mechanism is how something is enforced. The empty Mechanism is not at all.
type Mechanism string

// The means, best first.
const (
	ByCgroup2   Mechanism = "cgroup v2"
	ByCgroup1   Mechanism = "cgroup v1"
	ByNamespace Mechanism = "pid namespace"
	ByRlimit    Mechanism = "rlimit"
	// BySignals is a walk through the process table, which finds everything except
	// processes that hide on purpose.
	BySignals Mechanism = "signals"
	// BySampling is a check ten times a second at most. A fast program can exceed the
	// limit by far before it is killed.
	BySampling Mechanism = "sampling"
)

// Enforced is what is really enforced for a container on this machine.
type Enforced struct {
	UserNamespace  bool `json:"user_namespace"`
	PIDNamespace   bool `json:"pid_namespace"`
	MountNamespace bool `json:"mount_namespace"`
	IPCNamespace   bool `json:"ipc_namespace"`
	// OwnProc means that /proc shows only the container's processes.
	OwnProc bool `json:"own_proc"`
	// OwnShm means that /dev/shm is the container's own.
	OwnShm bool `json:"own_shm"`
	// Hidden means that the paths of Config.Hide cannot be reached.
	Hidden bool `json:"hidden"`
	// SysReadOnly means that /sys, the control groups included, cannot be changed.
	SysReadOnly bool `json:"sys_read_only"`
	// Views means that code inside can mount overlays, for private views of the
	// disk.
	Views bool `json:"views"`
	// KillAll is how everything in the container is killed at its end; KillGroup
	// and Freeze are how a group is killed and frozen.
	KillAll   Mechanism `json:"kill_all"`
	KillGroup Mechanism `json:"kill_group"`
	Freeze    Mechanism `json:"freeze"`
	// Leash is how code is frozen when the leash has expired.
	Leash Mechanism `json:"leash,omitempty"`
	// Memory, ContainerProcesses and GroupProcesses are how a limit is enforced if one is
	// set.
	Memory             Mechanism `json:"memory,omitempty"`
	ContainerProcesses Mechanism `json:"container_processes,omitempty"`
	GroupProcesses     Mechanism `json:"group_processes,omitempty"`
	// Processors is how all processes of the container together get one CPU share,
	// whatever their number.
	Processors Mechanism `json:"processors,omitempty"`
	// Notes says in words what is not enforced, and why.
	Notes []string `json:"notes,omitempty"`
}

func (e *Enforced) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// learn fills in c.enforced, from the keeper's report and the control groups.
func (c *Container) learn(r *readyReport) {
	e := &c.enforced
	e.MountNamespace, e.OwnProc, e.OwnShm, e.Hidden = r.Mounts, r.Proc, r.Shm, r.Hidden
	e.SysReadOnly, e.Views = r.SysSafe, r.Views
	e.Notes = append(e.Notes, r.Problems...)
	if !e.Hidden && len(c.cfg.Hide) > 0 {
		e.note("code can read the hidden paths where file permissions allow it")
		c.log.Warn("a container's code can reach the node's files", "problems", r.Problems)
	}
	cg := c.cgroups
	if cg == nil {
		cg = &containerCgroups{}
	}
	e.Notes = append(e.Notes, cg.problems...)
	unified := cg.unified != ""
	e.KillAll = pick(choice{e.PIDNamespace, ByNamespace}, choice{unified, ByCgroup2}, choice{true, BySignals})
	e.KillGroup = pick(choice{unified, ByCgroup2}, choice{true, BySignals})
	e.Freeze = e.KillGroup
	e.Leash = pick(choice{unified && c.cfg.Leash != nil, ByCgroup2})
	e.Memory = pick(choice{cg.memory2, ByCgroup2}, choice{cg.memory1 != "", ByCgroup1}, choice{true, BySampling})
	e.GroupProcesses = pick(choice{cg.pids2, ByCgroup2}, choice{cg.pids1 != "", ByCgroup1})
	e.ContainerProcesses = pick(choice{cg.pids2, ByCgroup2}, choice{cg.pids1 != "", ByCgroup1}, choice{r.NProc, ByRlimit})
	e.Processors = pick(choice{cg.cpu2, ByCgroup2}, choice{cg.cpu1 != "", ByCgroup1})
	if c.cfg.Limits.Processes > 0 && e.ContainerProcesses == "" {
		e.note("the limit of %d processes is not enforced", c.cfg.Limits.Processes)
	}
}

type choice struct {
	holds bool
	means Mechanism
}

// pick returns the means of the first choice that holds, or none.
func pick(choices ...choice) Mechanism {
	if i := slices.IndexFunc(choices, func(c choice) bool { return c.holds }); i >= 0 {
		return choices[i].means
	}
	return ""
}
