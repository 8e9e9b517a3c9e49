package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/surfaces"
)

// simulatedKernels makes kernels without processes, for a mesh in virtual time. They hold
// the list of package history, and understand three programs:
//
//	append SESSION TOKEN STEPS    append the token, then run for STEPS steps of 10 ms
//	read                          return the list
//	die                           end the kernel
type simulatedKernels struct {
	mu    sync.Mutex
	made  int
	loose bool // kernels cannot be frozen
	marks []history.Mark
	began time.Time
	// inspecting is what an inspection waits for; nil is nothing.
	inspecting func(context.Context)
}

func (p *simulatedKernels) Start(context.Context, engine.Want) (kernel.Kernel, error) {
	return p.kernel(nil, ""), nil
}

func (p *simulatedKernels) kernel(list []string, generation string) *simulatedKernel {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	if generation == "" {
		generation = fmt.Sprint("g", p.made)
	}
	k := &simulatedKernel{
		of: p, generation: generation, list: list, dead: make(chan struct{}), interrupts: make(chan struct{}, 1), flow: make(chan struct{}),
	}
	close(k.flow)
	k.process = sandbox.FakeProcess(k.dead)
	return k
}

func (p *simulatedKernels) now() int64 { return int64(time.Since(p.began)) }

// simulatedKernel is a kernel without a process. It does nothing while it is frozen.
type simulatedKernel struct {
	of         *simulatedKernels
	process    *sandbox.Process
	interrupts chan struct{}

	mu         sync.Mutex
	generation string
	list       []string
	over       bool
	dead       chan struct{}
	frozen     bool
	flow       chan struct{} // closed while it is not frozen
}

// act calls do once the kernel is not frozen. It returns false if the kernel is dead.
func (k *simulatedKernel) act(do func()) bool {
	for {
		k.mu.Lock()
		flow := k.flow
		if k.over {
			k.mu.Unlock()
			return false
		}
		if !k.frozen {
			do()
			k.mu.Unlock()
			return true
		}
		k.mu.Unlock()
		select {
		case <-flow:
		case <-k.dead:
		}
	}
}

func (k *simulatedKernel) mark(session, token string, start bool) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if session == "-" {
		session = ""
	}
	k.of.marks = append(k.of.marks, history.Mark{Session: session, Generation: k.generation, Token: token, Start: start, At: k.of.now()})
}

const simulatedStep = 10 * time.Millisecond

func (k *simulatedKernel) Run(_ context.Context, p kernel.Program) (kernel.Report, error) {
	died := &kernel.Died{Started: true}
	select {
	case <-k.interrupts: // an interrupt that came too late for the program before
	default:
	}
	words := strings.Fields(p.Code)
	steps := 0
	switch words[0] {
	case "die":
		k.Kill()
		return kernel.Report{}, died
	case "append":
		if _, err := fmt.Sscan(words[3], &steps); err != nil {
			return kernel.Report{}, err
		}
		if !k.act(func() { k.mark(words[1], words[2], true); k.list = append(k.list, words[2]) }) {
			return kernel.Report{}, died
		}
	}
	for range steps {
		timer := time.NewTimer(simulatedStep)
		select {
		case <-timer.C:
		case <-k.interrupts:
			timer.Stop()
			return kernel.Report{Interrupted: true, Alone: true, Exception: &surfaces.Exception{Type: "KeyboardInterrupt"}}, nil
		case <-k.dead:
			timer.Stop()
			return kernel.Report{}, died
		}
		if !k.act(func() { k.mark(words[1], words[2], false) }) {
			return kernel.Report{}, died
		}
	}
	r := kernel.Report{Alone: true}
	var err error
	if !k.act(func() {
		generation := k.generation
		if len(k.list) == 0 {
			generation = ""
		}
		r.Result, err = json.Marshal([]any{generation, append([]string{}, k.list...)})
	}) {
		return kernel.Report{}, died
	}
	return r, err
}

func (k *simulatedKernel) Interrupt(int) error {
	select {
	case k.interrupts <- struct{}{}:
	default:
	}
	return nil
}

func (k *simulatedKernel) Fork(context.Context, kernel.Kind, string) (kernel.Kernel, []surfaces.Notice, error) {
	var list []string
	var generation string
	if !k.act(func() { list, generation = slices.Clone(k.list), k.generation }) {
		return nil, nil, &kernel.Died{}
	}
	return k.of.kernel(list, generation), nil, nil
}

func (k *simulatedKernel) Kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.over = true
		close(k.dead)
	}
}

func (k *simulatedKernel) Freeze() error {
	k.of.mu.Lock()
	loose := k.of.loose
	k.of.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.frozen && !loose {
		k.frozen, k.flow = true, make(chan struct{})
	}
	return nil
}

func (k *simulatedKernel) Thaw() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frozen {
		k.frozen = false
		close(k.flow)
	}
	return nil
}

func (k *simulatedKernel) Group() sandbox.Group      { return simulatedGroup{k} }
func (k *simulatedKernel) Process() *sandbox.Process { return k.process }
func (k *simulatedKernel) Tell(kernel.Message) error { return nil }
func (k *simulatedKernel) Inspect(ctx context.Context, _ kernel.Detail) (kernel.State, error) {
	if wait := k.of.inspecting; wait != nil {
		wait(ctx)
	}
	return kernel.State{Python: &kernel.PythonState{}}, nil
}
func (k *simulatedKernel) Stack(context.Context) (string, error) { return "", nil }

// simulatedGroup is the group of a kernel without processes.
type simulatedGroup struct{ *simulatedKernel }

func (simulatedGroup) Add(int) error          { return nil }
func (simulatedGroup) Pids() ([]int, error)   { return nil, nil }
func (simulatedGroup) KillExcept([]int) error { return nil }
func (g simulatedGroup) Kill() error          { g.simulatedKernel.Kill(); return nil }
func (simulatedGroup) MemoryPeak() int64      { return 0 }
func (simulatedGroup) OOMKills() int          { return 0 }
func (simulatedGroup) Close() error           { return nil }
