package house

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutant breaks one safety-relevant line. The compiler gets the broken file as an overlay;
// nothing changes on disk.
type mutant struct {
	name, file string
	edits      []edit
	// tests has, by package, the pattern of the tests of which one must fail.
	tests map[string]string
}

// edit replaces a text that must occur exactly once.
type edit struct{ old, new string }

var (
	inVirtualTime = map[string]string{"./node": "TestAMeshInVirtualTime|TestVirtual"}
	inRegistry    = map[string]string{"./registry": "."}
	inPlacement   = map[string]string{"./placement": "."}
	inPrimitives  = map[string]string{"./node/primitives": "."}
	inAudit       = map[string]string{"./node/audit": "."}
	inFunctions   = map[string]string{"./node": "TestFunctions|TestSteeringReachesFunctions|TestPrimitivesOfAFunction"}
	onTheMachine  = map[string]string{"./agentlink": "Owner|Task|Pause|Folders|Journal|Offer|Late|Unlinked"}
	onThePage     = map[string]string{"./agentlink/consentpage": "."}
	inOneShots    = map[string]string{"./agentlink/oneshot": "LeavesBehind|AgentThatIsKilled|ReturnedFiles|PrimitivesEnd"}
	inClients     = map[string]string{"./node/gateway/client": "Files"}
	inUpgrades    = map[string]string{"./registry": "Level|Upgrade|Outdated|Newer"}
	ofMachines    = map[string]string{"./agentlink": "TestAResultIsKept"}
)

var mutants = []mutant{
	{"a node serves without a lease", "node/lease.go",
		[]edit{{"return l != nil && l.Valid()", "return l != nil"}}, inVirtualTime},
	{"a node does not freeze when its lease ends", "node/lease.go",
		[]edit{{"\tn.engine.Suspend()\n", ""}}, inVirtualTime},
	{"a keeper does not freeze the code of a stopped node", "node/sandbox/leash.go",
		[]edit{{"if over := until != 0 && until <= bootTime(); over != held {", "if over := false; over != held {"}}, map[string]string{"./node": "TestCodeOfAStoppedOwnerIsFrozen", "./node/sandbox": "TestALeash"}},
	{"a node that was declared lost keeps its sessions", "node/lease.go",
		[]edit{{"ended := n.engine.Fence()", "ended := 0"}}, inVirtualTime},
	{"a result computed without a lease is returned", "node/engine/execute.go",
		[]edit{{"for !r.engine.cfg.Serving() || s.fenced() {", "for false {"}}, inVirtualTime},
	{"an owner serves any epoch", "node/routes.go",
		[]edit{{"\tif !behind {\n\t\treturn ok\n", "\tif !behind {\n\t\treturn true\n"}}, inVirtualTime},
	{"a node serves routes to its earlier incarnations", "node/routes.go",
		[]edit{{"|| r.Incarnation != uint64(n.life())", ""}}, inVirtualTime},
	{"the engine accepts older epochs", "node/engine/session.go",
		[]edit{{"old != nil && old.epoch > epoch", "false"},
			{"if err := e.retired.refuse(key, epoch); err != nil {", "if err := e.retired.refuse(key, epoch); err != nil && false {"}}, inVirtualTime},
	{"a repeated attempt runs again", "node/peer/server.go",
		[]edit{
			{"if r := s.find(key); r != nil {", "if r := s.find(key); r != nil && w.From != (calls.Mark{}) {"},
			{"if r := s.attempts[key]; r != nil {\n\t\treturn r, nil", "if r := s.attempts[key]; r != nil && false {\n\t\treturn r, nil"},
		},
		map[string]string{"./node/peer": "."}},
	{"a leader reads without confirming its quorum", "registry/fresh.go",
		[]edit{{"if err := quorum(ready.term); err != nil {", "if err := error(nil); err != nil {"}}, inRegistry},
	{"a voter of a later term confirms an old leader", "registry/quorum.go",
		[]edit{{" && p.Term <= term", ""}}, inRegistry},
	{"an earlier heartbeat confirms the leader of a lease", "registry/contacts.go",
		[]edit{{" && m.answered > count", ""}}, inRegistry},
	{"the time without a leader is taken from the lease", "registry/lease_expiry.go",
		[]edit{{"return max(l.silenceLimit()-s.silent, l.silenceLimit()+l.Grace-s.silent-s.leaderless)", "return l.silenceLimit() + l.Grace - s.silent - s.leaderless"},
			{"if s.silent < l.silenceLimit() {", "if s.silent+s.leaderless < l.silenceLimit() {"}}, inRegistry},
	{"a leader reads before its term's barrier", "registry/leadership.go",
		[]edit{{"barrier := r.Barrier(0)\n\tif err := barrier.Error(); err != nil {\n\t\treturn readiness{}, err\n\t}\n", ""},
			{"barrier: barrier.(raft.IndexFuture).Index()", "barrier: r.AppliedIndex()"}}, inRegistry},
	{"a lease counts from the arrival of the answer", "registry/lease.go",
		[]edit{{"t := &leaseTerm{from: g.from,", "t := &leaseTerm{from: readClock(),"}}, inVirtualTime},
	{"a leader does not wait for a lease to expire", "registry/lease_config.go",
		[]edit{{"return l.TTL + l.TTL/10 }", "return l.TTL / 2 }"}}, map[string]string{"./registry": ".", "./node": "TestAMeshInVirtualTime|TestVirtual"}},
	{"a new leader does not restart leases", "registry/lease_expiry.go",
		[]edit{{"last := t.began", "last := time.Time{}"}, {"if have.life < n.Incarnation {", "if false {"}}, inRegistry},
	{"a lease is granted to an incarnation that was declared lost", "registry/lease_grant.go",
		[]edit{{"have.life == q.Incarnation && have.expiring", "have.life == q.Incarnation && false"}}, inRegistry},
	{"a leader never doubts itself", "registry/lease_expiry.go",
		[]edit{{"hold = together >= 2 && 2*together >= len(all)", "hold = false"}}, inRegistry},
	{"a node writes commands that other nodes do not know yet", "registry/propose.go",
		[]edit{{"encodeCommand(c, p, meshLevel(view.tables()))", "encodeCommand(c, p, r.machine.knows)"}}, inUpgrades},
	{"an outdated release keeps running", "registry/machine.go",
		[]edit{{"\tif m.behind() != nil {\n\t\treturn reply{verdict: unsupported}\n\t}\n", ""}}, inUpgrades},
	{"a session is taken from a live owner", "registry/command_claim.go",
		[]edit{{"case have.State != SessionLost:", "case false:"}}, inRegistry},
	{"a loss is reported to every caller", "registry/command_loss.go",
		[]edit{{"case s.Loss.Told:", "case false:"}}, map[string]string{"./registry": ".", "./placement": "."}},
	{"a loss is reported to no caller", "registry/command_loss.go",
		[]edit{{"return AckOutcome{Result: TellLoss, Loss: told.Loss}", "return AckOutcome{Result: AlreadyTold, Loss: told.Loss}"}},
		map[string]string{"./registry": ".", "./node": "TestAMeshInVirtualTime|TestVirtual"}},
	{"a reader is served from an empty session", "placement/table.go",
		[]edit{{"case mode == surfaces.ReadOnly:", "case false:"}}, inPlacement},
	{"a call is retried twice", "placement/table.go",
		[]edit{{"const maxAttempts = 2", "const maxAttempts = 3"}}, inPlacement},
	{"a retry performs its primitives again", "node/primitives/ledger.go",
		[]edit{{"case before.allowed || before.word == \"\":", "case false:"}}, inPrimitives},
	{"a second attempt reuses a sequence number for another use", "node/primitives/caller.go",
		[]edit{{"if l.asked[x.told] != nil {", "if false {"}}, inPrimitives},
	{"primitives outlive their call", "node/primitives/ledger.go",
		[]edit{{"case l.over || x.attempt < l.attempt:", "case false:"}}, inPrimitives},
	{"read-only code uses primitives that are not read-only", "node/primitives/ledger.go",
		[]edit{{"l.cfg.ReadOnly && !f.ReadOnly {", "false {"}}, inPrimitives},
	{"functions called by read-only code are not read-only", "node/functions_run.go",
		[]edit{{"call.StateMode = surfaces.ReadOnly //", "call.StateMode = surfaces.Stateless //"}}, inFunctions},
	{"functions outlive the code that called them", "node/functions_run.go",
		[]edit{{"\t\t\tn.stopUntilEnded(r)\n", ""}}, inFunctions},
	{"primitives used by a function are not counted", "node/functions_run.go",
		[]edit{{"limiter: c.limiter, budget: c.budget}", "limiter: c.limiter, budget: primitives.NewBudget(1000)}"}}, inFunctions},
	{"a pause does not reach called functions", "node/children.go",
		[]edit{{"e.SetPaused(action == \"pause\")", "return"}}, inFunctions},
	{"a primitive that waits for the caller is dropped from the journal", "node/calls/journal.go",
		[]edit{{"&& j.open[s.event.ID] {", "&& false {"}}, map[string]string{"./node/calls": "."}},
	{"a changed line is accepted", "node/audit/line.go",
		[]edit{{"!ok || chained(prev, covered) != string(hash)", "!ok"}}, inAudit},
	{"a gap in the sequence is accepted", "node/audit/verify.go",
		[]edit{{"case got.head.Seq != at.Seq+1 || got.prev != at.Hash:", "case false:"}}, inAudit},
	{"witnessed heads are not compared", "node/auditlogs.go",
		[]edit{{"ask.Seen = append(ask.Seen, heads[node]...)", "_ = node"}}, map[string]string{"./node": "TestAuditOfAMesh"}},
	{"a torn line is not reported", "node/audit/log.go",
		[]edit{{"rest := end.segment.size - end.good; rest > 0", "rest := end.segment.size - end.good; rest < 0"}}, inAudit},
	{"lost entries are not reported", "node/audit/write.go",
		[]edit{{"if err == nil && l.gap.entries > 0 {\n\t\tl.logGap()", "if err == nil && l.gap.entries > 0 {\n\t\tl.gap = gap{}"}}, inAudit},
	{"removed files are not reported", "node/audit/write.go",
		[]edit{{"\tl.encode(Entry{Kind: LogDropped,", "\t_ = append([]Entry{}, Entry{Kind: LogDropped,"}}, inAudit},
	{"an actor reads other actors' entries", "node/auditlogs.go",
		[]edit{{"\t\tq.Actor = who.Actor\n", ""}}, map[string]string{"./node": "TestAuditAccess"}},
	{"a call is retried whatever its on_loss", "placement/table.go",
		[]edit{{"case onLoss == surfaces.Retry:", "case true:"}}, inPlacement},
	{"a machine runs a repeated offer again", "agentlink/agent.go",
		[]edit{{"\tif a.seen[callID] {", "\tif false {"}}, onTheMachine},
	{"a restarted agent runs a call again", "agentlink/journal.go",
		[]edit{{"\tif !w.ended {\n", "\tif false {\n"}}, onTheMachine},
	{"a machine drops an unacknowledged result", "agentlink/job.go",
		[]edit{{"&said); err != nil {\n\t\t\treturn isCode(err, codeForgotten), err", "&said); err != nil {\n\t\t\treturn true, err"}}, ofMachines},
	{"an unlinked machine stays connected", "agentlink/attachment.go",
		[]edit{{"\t\tat.end(errUnlinked)\n", ""}}, onTheMachine},
	{"a machine with consent deny runs code", "agentlink/consent.go",
		[]edit{{"case g.policy.Consent == ConsentDeny:", "case false:"}, {"case g.policy.Consent == ConsentAllow, ", "case g.policy.Consent != ConsentAsk, "}}, onTheMachine},
	{"a machine runs code without its owner's answer", "agentlink/consent.go",
		[]edit{{"case reply != ReplyOnce:", "case false:"}}, onTheMachine},
	{"a machine treats no answer as consent", "agentlink/consent.go",
		[]edit{{"\tcase err != nil:\n", "\tcase false:\n"}, {"case reply != ReplyOnce:", "case err == nil && reply != ReplyOnce:"}}, onTheMachine},
	{"a paused machine runs code", "agentlink/consent.go",
		[]edit{{"case g.paused():", "case false:"}}, onTheMachine},
	{"consent to one actor's task applies to all actors", "agentlink/consent.go",
		[]edit{{"return g.allowedActors[actor]", "return len(g.allowedActors) > 0"}}, onTheMachine},
	{"a machine runs code in any folder", "agentlink/consent.go",
		[]edit{{"case !g.policy.holds(q.Folder):", "case false:"}}, onTheMachine},
	{"the consent page accepts any host name", "agentlink/consentpage/page.go",
		[]edit{{"case r.Host != p.host:", "case false:"}}, onThePage},
	{"the consent page accepts requests of other pages", "agentlink/consentpage/page.go",
		[]edit{{"case origin != \"\" && origin != \"http://\"+p.host, from", "case origin == \"no\", from"}}, onThePage},
	{"the consent page needs no secret", "agentlink/consentpage/page.go",
		[]edit{{"[]byte(p.secret)) != 1 {", "[]byte(p.secret)) > 1 {"}}, onThePage},
	{"files are returned from outside the folder out", "agentlink/oneshot/folder.go",
		[]edit{
			{"info, err := root.Lstat(name)", "info, err := os.Stat(filepath.Join(root.Name(), name))"},
			{"dir, err := root.Open(name)", "dir, err := os.Open(filepath.Join(root.Name(), name))"},
			{"root.OpenFile(name, os.O_RDONLY|openFlags, 0)", "os.Open(filepath.Join(root.Name(), name))"},
		}, inOneShots},
	{"returned files are saved outside their folder", "node/gateway/client/files.go",
		[]edit{{"!inOut || surfaces.CheckFileName(name) != \"\"", "!inOut"}, {"root.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o666)", "os.OpenFile(root.Name()+\"/\"+name, os.O_WRONLY|os.O_CREATE|how, 0o666)"}}, inClients},
	{"processes started by a program on a machine outlive it", "agentlink/oneshot/supervisor_unix.go",
		[]edit{{"report{Over: true, Left: killAll(pid, adopts)}", "report{Over: true}"}}, inOneShots},
	{"a program outlives its machine's agent", "agentlink/oneshot/supervisor_unix.go",
		[]edit{{"case err != nil, o == orderKill:", "case err != nil:\n\t\t\treturn\n\t\tcase o == orderKill:"}}, inOneShots},
	{"a shell on a machine uses primitives after its end", "agentlink/oneshot/command_unix.go",
		[]edit{{"\tv.caller.End()\n", ""}}, inOneShots},
}

// The edits of every mutant must apply. This is quick and always runs.
func TestMutantsFindTheirLines(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) { m.overlay(t) })
	}
}

// The mutants compile: one that does not shows nothing. All are built together, but those whose
// texts others have changed are built in another round.
func TestMutantsCompile(t *testing.T) {
	for todo := mutants; len(todo) > 0; {
		broken, packages := map[string]string{}, map[string]bool{}
		var later []mutant
		for _, m := range todo {
			text, ok := broken[m.file]
			if !ok {
				text = read(t, m.file)
			}
			text, misses := m.apply(text)
			if misses != nil {
				later = append(later, m)
				continue
			}
			broken[m.file], packages["./"+path.Dir(m.file)] = text, true
		}
		if len(later) == len(todo) {
			t.Fatalf("%d mutants do not find their lines", len(later))
		}
		build := append([]string{"build", "-overlay", writeOverlay(t, broken)}, slices.Sorted(maps.Keys(packages))...)
		if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		todo = later
	}
}

// Each alternative of the patterns that select the mutants' tests must match some test.
func TestMutantsSelectTests(t *testing.T) {
	for _, m := range mutants {
		for pkg, pattern := range m.tests {
			names := testsIn(t, pkg)
			for alternative := range strings.SplitSeq(pattern, "|") {
				if !slices.ContainsFunc(names, regexp.MustCompile(alternative).MatchString) {
					t.Errorf("%s: no test in %s matches %q", m.name, pkg, alternative)
				}
			}
		}
	}
}

// For each mutant some test must fail. This takes long and only runs if LOCUS_MUTANTS is
// set to a part of the mutants' names, or to all.
func TestMutants(t *testing.T) {
	which := os.Getenv("LOCUS_MUTANTS")
	if which == "" {
		t.Skip("LOCUS_MUTANTS is not set; make mutants sets it")
	}
	red := map[string][]string{} // tests that fail without a mutant
	for _, m := range mutants {
		if which != "all" && !strings.Contains(m.name, which) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t)
			var noticed []string
			for _, pkg := range slices.Sorted(maps.Keys(m.tests)) {
				asItIs := pkg + " " + m.tests[pkg]
				if _, ok := red[asItIs]; !ok {
					red[asItIs] = failures(t, "", pkg, m.tests[pkg])
				}
				if len(red[asItIs]) > 0 {
					t.Fatalf("%s fails without the mutant: %v", pkg, red[asItIs])
				}
				noticed = append(noticed, failures(t, overlay, pkg, m.tests[pkg])...)
			}
			if len(noticed) == 0 {
				t.Fatalf("%s: no test failed", m.file)
			}
			t.Logf("| %s | `%s` | %s |", m.name, m.file, strings.Join(noticed, ", "))
		})
	}
}

// apply returns the text of the mutant's file with its edits, or the first edit whose text is
// not there exactly once.
func (m mutant) apply(text string) (broken string, misses *edit) {
	for _, e := range m.edits {
		if strings.Count(text, e.old) != 1 {
			return "", &e
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text, nil
}

// overlay writes the broken file and the overlay for the compiler.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	broken, misses := m.apply(read(t, m.file))
	if misses != nil {
		t.Fatalf("%q is not exactly once in %s", misses.old, m.file)
	}
	return writeOverlay(t, map[string]string{m.file: broken})
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// writeOverlay writes texts for files, and the overlay that makes the compiler take them.
func writeOverlay(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for file, text := range texts {
		broken := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		whole, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[whole] = broken
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^panic: `)

// failures returns the tests of a package that fail with an overlay.
func failures(t *testing.T, overlay, pkg, run string) (names []string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", os.DevNull, "-overlay", overlay, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", pkg, err, out)
	}
	args := []string{"test", "-vet=off", "-count=1", "-timeout", "5m", "-overlay", overlay, "-run", run, pkg}
	imports, err := exec.Command("go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(imports), "pgregory.net/rapid") {
		// Its failures are due to the mutant, and later runs without it would replay them.
		args = append(args, "-rapid.nofailfile")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err == nil {
		return nil
	}
	for _, f := range failed.FindAllStringSubmatch(string(out), -1) {
		name := f[1]
		if name == "" {
			name = "it hangs or panics"
		}
		if name = "`" + name + "`"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		t.Fatalf("%s: %v\n%.2000s", pkg, err, out)
	}
	return names
}
