package oneshot

import (
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/locusrun/locus/node/kernel/python/worker"
)

var (
	//go:embed start.py
	startText string
	//go:embed machine.py
	machineText string
	//go:embed zygote.py
	zygoteText string
)

// modulesText contains the modules of the worker and of this package, as JSON.
var modulesText = sync.OnceValues(func() (json.RawMessage, error) {
	modules, err := worker.Modules()
	if err != nil {
		return nil, err
	}
	modules["machine"], modules["zygote"] = machineText, zygoteText
	return json.Marshal(modules)
})

// newToken returns the token that begins each frame of one program.
func newToken() []byte {
	token := make([]byte, tokenSize)
	_, _ = rand.Read(token) // never fails: see crypto/rand
	return token
}

// bundle returns what an interpreter reads first: the length and the content of a JSON
// object with all modules. module, machine or zygote, is the one that it then serves in.
func bundle(module string, token []byte) ([]byte, error) {
	modules, err := modulesText()
	if err != nil {
		return nil, err
	}
	boot, err := worker.Module("boot")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(struct {
		Boot    string          `json:"boot"`
		Modules json.RawMessage `json:"modules"`
		Main    string          `json:"main"`
		Token   string          `json:"token"`
	}{boot, modules, module, hex.EncodeToString(token)})
	if err != nil {
		return nil, fmt.Errorf("pack what a program needs: %w", err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

// interpreter is a started Python that waits for its one program.
type interpreter struct {
	*place
	hear *frameReader // frames from the interpreter
	say  *frameWriter // frames to it
	feed func() error
	// ready is true once it has said that it is ready.
	ready bool
}

// pythonEnvironment is the environment of Python programs, without their mark.
func pythonEnvironment() []string { return append(environment(os.Environ()), "MPLBACKEND=Agg") }

// startInterpreter starts Python in a new folder. It must be fed before it can run
// anything.
func startInterpreter(path, dir string) (*interpreter, error) {
	at, err := newPlace(dir)
	if err != nil {
		return nil, err
	}
	token := newToken()
	p := &interpreter{place: at, hear: newFrameReader(at.from, token), say: &frameWriter{to: at.to}}
	p.feed = sync.OnceValue(func() error {
		text, err := bundle("machine", token)
		if err != nil {
			return err
		}
		_, err = at.to.Write(text)
		return err
	})
	if err := at.start(spec{Path: path, Args: []string{path, "-c", startText}, Env: pythonEnvironment(), Dir: at.folder.work, Talks: true}); err != nil {
		return nil, errors.Join(err, p.discard())
	}
	return p, nil
}

// awaitReady feeds an interpreter and returns when it is ready.
func (p *interpreter) awaitReady() error {
	if err := p.feed(); err != nil {
		return fmt.Errorf("start an interpreter: %w", err)
	}
	if _, _, err := p.hear.next(); err != nil {
		return fmt.Errorf("start an interpreter: %w", err)
	}
	p.ready = true
	return nil
}
