package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// cgroupPrefix is the prefix of the name of every control group that a node makes.
const cgroupPrefix = "locus-"

// nodeCgroupPrefix is the prefix of the leaf group into which a node moves itself if its
// own group gets controllers for its children: such a v2 group must not have processes.
const nodeCgroupPrefix = cgroupPrefix + "node-"

// cgroupBase says where on this machine control groups can be made. Containers make
// theirs directly below these directories. An empty path means that there is none.
type cgroupBase struct {
	unified  string   // v2, for killing and freezing
	memory2  bool     // v2 has the memory controller there
	pids2    bool     // v2 has the pids controller there
	cpu2     bool     // v2 has the cpu controller there
	memory1  string   // v1
	pids1    string   // v1
	cpu1     string   // v1
	roots    []string // the roots of the hierarchies, below which stale groups are removed
	problems []string
}

// findCgroupBase runs once per process. It also removes stale control groups.
var findCgroupBase = sync.OnceValue(func() cgroupBase {
	var b cgroupBase
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.problems = append(b.problems, err.Error())
		return b
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		b.problems = append(b.problems, err.Error())
		return b
	}
	places := parseCgroupPlaces(string(mounts), string(own))
	if p, ok := places[""]; ok {
		b.openUnified(p)
	}
	for name, dir := range map[string]*string{"memory": &b.memory1, "pids": &b.pids1, "cpu": &b.cpu1} {
		p, ok := places[name]
		if !ok {
			continue
		}
		if err := writable(p.own()); err != nil {
			b.problems = append(b.problems, fmt.Sprintf("cgroup v1 %s: %v", name, err))
			continue
		}
		*dir = p.own()
	}
	for _, name := range []string{"", "memory", "pids", "cpu"} {
		if p, ok := places[name]; ok {
			b.roots = append(b.roots, p.mount)
			removeStale(p.mount)
		}
	}
	return b
})

// cgroupPlace is a hierarchy's mount point and this process's group in it.
type cgroupPlace struct {
	mount string
	path  string
}

func (p cgroupPlace) own() string { return filepath.Join(p.mount, p.path) }

// parseCgroupPlaces parses /proc/self/mountinfo and /proc/self/cgroup. The key is the name
// of a v1 controller, or empty for v2.
func parseCgroupPlaces(mountinfo, own string) map[string]cgroupPlace {
	paths := map[string]string{}
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			paths[name] = f[2]
		}
	}
	places := map[string]cgroupPlace{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 3 {
			continue
		}
		var names []string
		switch a[0] {
		case "cgroup2":
			names = []string{""}
		case "cgroup":
			names = strings.Split(a[2], ",")
		}
		for _, name := range names {
			path, ok := paths[name]
			if !ok {
				continue
			}
			// The mount may show only a part of the tree, below its root.
			rel, err := filepath.Rel(b[3], path)
			if err != nil || strings.HasPrefix(rel, "..") {
				rel = "."
			}
			if _, seen := places[name]; !seen {
				places[name] = cgroupPlace{mount: b[4], path: filepath.Join("/", rel)}
			}
		}
	}
	return places
}

// openUnified chooses where in the v2 tree to make groups, and enables the controllers
// there.
func (b *cgroupBase) openUnified(p cgroupPlace) {
	own := p.own()
	if strings.HasPrefix(filepath.Base(own), nodeCgroupPrefix) {
		own = filepath.Dir(own)
	}
	places := []string{own}
	if own != p.mount && os.Geteuid() == 0 {
		// Only the root group may have both processes and controllers.
		places = append(places, p.mount)
	}
	for _, dir := range places {
		if err := writable(dir); err != nil {
			b.problems = append(b.problems, fmt.Sprintf("cgroup v2: %v", err))
			continue
		}
		if b.unified == "" {
			b.unified = dir
		}
		if have := controllersIn(dir, "cgroup.controllers"); !have["memory"] && !have["pids"] {
			continue
		}
		if err := enableControllers(dir, "memory", "pids", "cpu"); err != nil {
			b.problems = append(b.problems, fmt.Sprintf("cgroup v2 controllers: %v", err))
		}
		if on := controllersIn(dir, "cgroup.subtree_control"); on["memory"] || on["pids"] {
			b.unified, b.memory2, b.pids2, b.cpu2 = dir, on["memory"], on["pids"], on["cpu"]
			return
		}
	}
}

// writable tests whether groups can be made in dir, by making one.
func writable(dir string) error {
	// removeStale of another node must not remove the probe, so its name has another prefix.
	probe, err := os.MkdirTemp(dir, "try-"+cgroupPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(probe)
	f, err := os.OpenFile(filepath.Join(probe, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func controllersIn(dir, file string) map[string]bool {
	have := map[string]bool{}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return have // no controller can be used
	}
	for name := range strings.FieldsSeq(string(b)) {
		have[name] = true
	}
	return have
}

// enableControllers enables controllers for the groups below dir. A group that does so must
// not have processes. If this process is the only one in dir, as in a service of its own,
// it moves to a new group one level down.
func enableControllers(dir string, names ...string) error {
	have := controllersIn(dir, "cgroup.controllers")
	var failed error
	for _, name := range names {
		if !have[name] {
			continue
		}
		err := writeControl(dir, "cgroup.subtree_control", "+"+name)
		if errors.Is(err, unix.EBUSY) {
			if err = stepDown(dir); err == nil {
				err = writeControl(dir, "cgroup.subtree_control", "+"+name)
			}
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}

func stepDown(dir string) error {
	pids, err := pidsIn(dir)
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return fmt.Errorf("%s holds other processes than the node: %w", dir, unix.EBUSY)
	}
	leaf := filepath.Join(dir, nodeCgroupPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return writeControl(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}
