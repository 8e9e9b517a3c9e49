package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// isolates skips the test if the result says that this machine cannot isolate a copy from the
// session's processes.
func (w *world) isolates(t *testing.T, res surfaces.Result) {
	t.Helper()
	if i := slices.IndexFunc(res.Notice, func(n surfaces.Notice) bool { return strings.HasSuffix(n.Kind, "_not_isolated") }); i >= 0 {
		if res.Language != nil && *res.Language == "python" && w.enforces("views") {
			t.Fatal(show(res))
		}
		t.Skip(res.Notice[i].Text)
	}
}

// A read-only call can change neither how other processes of its actor run, the keeper
// included, nor the IPC objects that they share.
func TestReadOnlyCannotReachOtherProcesses(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("other", "x = 1"))
	neighbour := string(ok(t, w.keep("other", "import os; os.getpid()")).Result)
	ok(t, w.keep("s", `
import ctypes, os, resource, subprocess
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
pid, key = os.getpid(), 0x10C05
segment, queue, semaphore = libc.shmget(key, 4096, 0o1600), libc.msgget(key, 0o1600), libc.semget(key, 1, 0o1600)
place = libc.shmat(segment, None, 0)
ctypes.memmove(place, b"mine", 4)
child = subprocess.Popen(["sleep", "1000"])
nice, cpus = os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))
def score(pid):
    with open("/proc/%d/oom_score_adj" % pid) as file: return int(file.read())
scores = score(pid), score(1)
`))
	victims := "[" + neighbour + ", pid, child.pid, os.getppid(), 1]"
	res := w.read("s", `
did = []
def attempt(name, call, *values):
    try:
        if call(*values) not in (-1, 2**64 - 1): did.append(name)
    except OSError: pass
for victim in `+victims+`:
    attempt("limit", resource.prlimit, victim, resource.RLIMIT_CPU, (0, 0))
    attempt("nice", os.setpriority, os.PRIO_PROCESS, victim, 19)
    attempt("affinity", os.sched_setaffinity, victim, cpus[:1])
    attempt("policy", os.sched_setscheduler, victim, os.SCHED_IDLE, os.sched_param(0))
    attempt("kill", os.kill, victim, 9)
    for name in ("oom_score_adj", "autogroup", "mem"):
        attempt(name, open, "/proc/%d/%s" % (victim, name), "w")
attempt("nice of a user", os.setpriority, os.PRIO_USER, os.getuid(), 19)
attempt("open by key", libc.shmget, key, 4096, 0o600)
attempt("shmat", libc.shmat, segment, None, 0)
attempt("shmctl", libc.shmctl, segment, 0, None)
attempt("msgctl", libc.msgctl, queue, 0, None)
attempt("msgsnd", libc.msgsnd, queue, b"1234567890123456", 8, 0o4000)
attempt("semctl", libc.semctl, semaphore, 0, 0)
attempt("keyctl", libc.syscall, {"x86_64": 250, "aarch64": 219}[os.uname().machine], 0, -3, 1)
ctypes.memmove(place, b"copy", 4)
# What it may do to itself and its own.
own = [os.nice(1) - nice, resource.prlimit(pid, resource.RLIMIT_CPU) == resource.getrlimit(resource.RLIMIT_CPU)]
resource.setrlimit(resource.RLIMIT_CPU, (100, 100)); resource.prlimit(os.getpid(), resource.RLIMIT_CPU, (90, 90)); os.sched_setaffinity(0, cpus[:1])
sleeper = subprocess.Popen(["sleep", "1000"]); sleeper.kill()
[did, own, sleeper.wait(), libc.shmget(key, 4096, 0o1600) >= 0]`)
	w.isolates(t, res)
	value(t, res, "[[],[1,true],-9,true]")
	value(t, w.keep("s", `[ctypes.string_at(place, 4).decode(), libc.shmget(key, 0, 0) == segment, libc.msgget(key, 0) == queue, libc.semget(key, 1, 0) == semaphore,
 child.poll(), os.getpriority(os.PRIO_PROCESS, 0) == nice, sorted(os.sched_getaffinity(0)) == cpus, (score(pid), score(1)) == scores]`),
		`["mine",true,true,true,null,true,true,true]`)
	ok(t, w.keep("s", "libc.shmdt(place); libc.shmctl(segment, 0, None); libc.msgctl(queue, 0, None); libc.semctl(semaphore, 0, 0); child.kill()"))
	value(t, w.keep("other", "x"), "1")
}

func TestReadOnlyBashCannotReachOtherProcesses(t *testing.T) {
	w := fresh(t)
	w.needs(t, "bash")
	ok(t, w.keepShell("bash", "s", "echo first >f; me=$$; x=1; before=\"$(cat /proc/$$/oom_score_adj) $(nice) $(ulimit -t) $(taskset -p $$)\"; ipcmk -M 10 >made; id=${id:-$(grep -o '[0-9]*$' made)}"))
	res := w.exec(args{"language": "bash", "state_mode": "read_only", "session_name": "s", "code": `
exec 2>/dev/null
prlimit --pid $me --cpu=0:0 && echo limit
prlimit --pid 1 --cpu=0:0 && echo limit of the keeper
renice 19 $me && echo nice
taskset -p 1 $me >/dev/null && echo affinity
chrt -i -p 0 $me && echo policy
ionice -c 3 -p $me && echo io
echo 500 >/proc/$me/oom_score_adj && echo score
ipcrm -m $id && echo object
here=$PWD
for i in 1 2 3 4; do umount -l "$here" && echo unmounted; done
mount -o remount,bind,rw / && echo remounted
cd / && cd "$here" && echo changed >f
prlimit --pid $me --nproc >/dev/null || echo limits cannot be read
ulimit -t 100 && taskset 1 true && nice true || echo nothing can be done
true`})
	w.isolates(t, res)
	if ok(t, res).Stdout != "" {
		t.Error(show(res))
	}
	res = ok(t, w.keepShell("bash", "s", `echo $x; cat f; [ "$before" = "$(cat /proc/$$/oom_score_adj) $(nice) $(ulimit -t) $(taskset -p $$)" ] && echo same; ipcrm -m $id && echo there`))
	if res.Stdout != "1\nfirst\nsame\nthere\n" {
		t.Errorf("got %s, want Stdout \"1\\nfirst\\nsame\\nthere\\n\"", show(res))
	}
}
